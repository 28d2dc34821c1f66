package plan

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/paused"
)

func TestMaxUnhealthy(t *testing.T) {
	text := func(s string) *intstr.IntOrString { return new(intstr.FromString(s)) }
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	for _, c := range []struct {
		value    *intstr.IntOrString
		expected int
		want     int
		fails    bool
	}{
		{nil, 7, 7, false},
		{number(3), 7, 3, false},
		{number(0), 7, 0, false},
		{number(-1), 7, 0, false},
		{number(10), 7, 10, false},
		{text("40%"), 5, 2, false},
		{text("60%"), 7, 4, false},
		{text("100%"), 7, 7, false},
		{text("0%"), 7, 0, false},
		{text("99%"), 1, 0, false},
		{text("50%"), 0, 0, false},
		{text("150%"), 4, 4, false},
		{text("-10%"), 4, 0, false},
		{text("4"), 7, 4, false},
		{text("-4"), 7, 0, false},
		{text(""), 7, 0, true},
		{text("%"), 7, 0, true},
		{text("some"), 7, 0, true},
		{text("4 %"), 7, 0, true},
		{text("1.5"), 7, 0, true},
		{text("99999999999999999999"), 7, 0, true},
	} {
		got, err := maxUnhealthy(c.value, c.expected)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%v of %d: %d, %v; want %d", c.value, c.expected, got, err, c.want)
		}
	}
}

func TestDecide_Counts(t *testing.T) {
	for _, c := range []struct {
		machines, limit             string
		healthy, remediationsAllows int
		allowed                     bool
		remediations                string
	}{
		{"", "100%", 0, 0, true, ""},
		{"www", "100%", 3, 3, true, ""},
		{"www", "0", 3, 0, true, ""},
		{"uww", "0", 2, 0, false, ""},
		{"uww", "1", 2, 0, true, "m0"},
		{"uuw", "1", 1, 0, false, ""},
		{"uuwww", "40%", 3, 0, true, "m0 m1"},
		{"uuuww", "40%", 2, 0, false, ""},
		{"uwwww", "4", 4, 3, true, "m0"},
		// Machines within a timeout, and Machines that start or are being deleted, are not healthy either.
		{"swww", "1", 3, 0, true, ""},
		{"suww", "1", 2, 0, false, ""},
		{"duww", "1", 2, 0, false, ""},
		{"yuww", "1", 2, 0, false, ""},
		{"yuww", "2", 2, 0, true, "m1"},
		{"yyyy", "40%", 0, 0, false, ""},
		{"dddd", "100%", 0, 0, true, ""},
		{"uuuu", "100%", 0, 0, true, "m0 m1 m2 m3"},
		{"uww", "bad", 2, 0, false, ""},
		// Machines without a Node come first.
		{"ufun", "100%", 0, 0, true, "m3 m1 m0 m2"},
	} {
		t.Run(c.machines+" "+c.limit, func(t *testing.T) {
			check := newCheck("c")
			check.Spec.MaxUnhealthy = new(intstr.FromString(c.limit))
			d := Decide(&Input{Check: check, Targets: newTargets(c.machines), Now: start})
			if d.Expected != len(c.machines) || d.Healthy != c.healthy || d.Unhealthy != d.Expected-d.Healthy || d.Allowed != c.allowed ||
				d.RemediationsAllowed() != c.remediationsAllows || summary(&d) != c.remediations {
				t.Errorf("%d expected, %d healthy, allowed %t (%d more), remediations %q", d.Expected, d.Healthy, d.Allowed,
					d.RemediationsAllowed(), summary(&d))
			}
			if (d.LimitError != nil) != (c.limit == "bad") {
				t.Errorf("%v", d.LimitError)
			}
		})
	}
}

func TestDecide_Blocked(t *testing.T) {
	annotated := func(key string) func(*Target) {
		return func(t *Target) { t.Machine.Annotations = map[string]string{key: ""} }
	}
	authority := func(authority machinev1beta1.MachineAuthority) func(*Target) {
		return func(t *Target) { t.Machine.Status.AuthoritativeAPI = authority }
	}
	orphan := func(t *Target) { t.Machine.OwnerReferences = nil }
	broken := func(t *Target) { t.Machine.Status.Phase = new("Failed") }
	template := func(c *machinev1beta1.MachineHealthCheck) { c.Spec.RemediationTemplate = &corev1.ObjectReference{} }
	bareMetal := func(c *machinev1beta1.MachineHealthCheck) {
		c.Annotations = map[string]string{StrategyAnnotation: BareMetalStrategy}
	}
	for name, c := range map[string]struct {
		check  func(*machinev1beta1.MachineHealthCheck)
		target func(*Target)
		others []machinev1beta1.MachineHealthCheck
		want   string
		method Method
	}{
		"nothing":                               {want: "m0", method: ByDeletion},
		"no controller":                         {target: orphan, want: "m0=NoController"},
		"an owner that is no controller":        {target: func(t *Target) { t.Machine.OwnerReferences[0].Controller = nil }, want: "m0=NoController"},
		"a MachineSet that cannot be decoded":   {target: func(t *Target) { t.OwnerProblem = "no date" }, want: "m0=Undecodable"},
		"by template, such a MachineSet":        {check: template, target: func(t *Target) { t.OwnerProblem = "x" }, want: "m0", method: ByTemplate},
		"skipped":                               {target: annotated(SkipAnnotation), want: "m0=SkippedByAnnotation"},
		"skipped, annotation of Cluster API":    {target: annotated(ClusterAPISkipAnnotation), want: "m0=SkippedByAnnotation"},
		"paused":                                {target: annotated(paused.ClusterAPIAnnotation), want: "m0=MachinePaused"},
		"authority of another API":              {target: authority("ClusterAPI"), want: "m0=AuthoritativeAPINotMachineAPI"},
		"migrating to another API":              {target: authority("Migrating"), want: "m0=AuthoritativeAPINotMachineAPI"},
		"authority of this API":                 {target: authority("MachineAPI"), want: "m0", method: ByDeletion},
		"an older MachineHealthCheck":           {others: []machinev1beta1.MachineHealthCheck{*newCheck("old", older)}, want: "m0=LeftToOlder"},
		"by template":                           {check: template, want: "m0", method: ByTemplate},
		"by template, no controller":            {check: template, target: orphan, want: "m0", method: ByTemplate},
		"by template, failed":                   {check: template, target: broken, want: "m0", method: ByTemplate},
		"by template, skipped":                  {check: template, target: annotated(SkipAnnotation), want: "m0=SkippedByAnnotation"},
		"by template, requested":                {check: template, target: func(t *Target) { t.Requested = true }},
		"by annotation":                         {check: bareMetal, want: "m0", method: ByAnnotation},
		"by annotation, no controller":          {check: bareMetal, target: orphan, want: "m0", method: ByAnnotation},
		"by annotation, failed":                 {check: bareMetal, target: broken, want: "m0", method: ByDeletion},
		"by annotation, failed, no controller":  {check: bareMetal, target: func(t *Target) { orphan(t); broken(t) }, want: "m0=NoController"},
		"by annotation, requested":              {check: bareMetal, target: annotated(ExternalAnnotation)},
		"by annotation, requested, cache stale": {check: bareMetal, target: func(t *Target) { t.Stale = true }},
		"annotated, another method":             {target: annotated(ExternalAnnotation), want: "m0", method: ByDeletion},
		"another strategy": {check: func(c *machinev1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{StrategyAnnotation: "other"}
		}, want: "m0", method: ByDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			in := Input{Check: newCheck("c"), Checks: c.others, Targets: newTargets("u"), Now: start}
			if c.check != nil {
				c.check(in.Check)
			}
			if c.target != nil {
				c.target(&in.Targets[0])
			}
			d := Decide(&in)
			if summary(&d) != c.want || d.Unhealthy != 1 {
				t.Errorf("%q (%d unhealthy), want %q", summary(&d), d.Unhealthy, c.want)
			}
			if c.method != "" && d.Remediations[0].Method != c.method {
				t.Errorf("method %s, want %s", d.Remediations[0].Method, c.method)
			}
			if external := summary(&d) == ""; external != (d.External == 1) {
				t.Errorf("%d remediated externally", d.External)
			}
			for _, o := range d.Blocked {
				if o.Message == "" {
					t.Errorf("%s has no message", o.Reason)
				}
			}
		})
	}
}

// A Machine that is skipped, or remediated by another controller, counts as unhealthy like any other.
func TestDecide_SkippedMachinesCount(t *testing.T) {
	check := newCheck("c")
	check.Spec.MaxUnhealthy = new(intstr.FromInt32(1))
	targets := newTargets("uuw")
	targets[0].Machine.Annotations = map[string]string{SkipAnnotation: ""}
	if d := Decide(&Input{Check: check, Targets: targets, Now: start}); d.Allowed {
		t.Errorf("%d of %d is allowed", d.Unhealthy, d.Limit)
	}
}

func TestDecide_Wake(t *testing.T) {
	backoff := map[types.UID]StartFailures{owner: {Rounds: 2, First: start.Add(-30 * time.Second), Last: start.Add(-30 * time.Second)}}
	for _, c := range []struct {
		machines, limit string
		failures        map[types.UID]StartFailures
		want            time.Duration
	}{
		{"www", "100%", nil, 0},
		{"sww", "100%", nil, 4*time.Minute + Slack},
		{"syw", "100%", nil, 4*time.Minute + Slack},
		{"yww", "100%", nil, 10*time.Minute + Slack},
		{"uww", "100%", nil, 0},
		{"uww", "100%", backoff, 90 * time.Second},
		// While remediation is not allowed, the end of a backoff does not matter.
		{"uww", "0", backoff, 0},
		{"uuw", "1", nil, 0},
		{"suw", "1", nil, 4*time.Minute + Slack},
	} {
		check := newCheck("c")
		check.Spec.MaxUnhealthy = new(intstr.FromString(c.limit))
		d := Decide(&Input{Check: check, Targets: newTargets(c.machines), Failures: c.failures, Now: start})
		var got time.Duration
		if !d.Wake.IsZero() {
			got = d.Wake.Sub(start)
		}
		if got != c.want {
			t.Errorf("%s, %s: in %s, want %s", c.machines, c.limit, got, c.want)
		}
	}
}

func TestDecide_LongestUnhealthyFirst(t *testing.T) {
	targets := newTargets("uuuu")
	targets[0].Node, targets[1].Node = notReady("n-m0", 10*time.Minute), notReady("n-m1", 30*time.Minute)
	targets[2].Node, targets[3].Node = notReady("n-m2", 20*time.Minute), notReady("n-m3", 30*time.Minute)
	if d := Decide(&Input{Check: newCheck("c"), Targets: targets, Now: start}); summary(&d) != "m1 m3 m2 m0" {
		t.Errorf("%s", summary(&d))
	}
}

func notReady(name string, age time.Duration) *corev1.Node {
	return newNode(name, corev1.ConditionFalse, age)
}
