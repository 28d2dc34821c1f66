package healthcheck

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// pool makes targets: w is well, u unhealthy for long, s suspect, d being deleted, f failed, n without a node for longer than it may be, y
// without one and young.
func pool(kinds string) []target {
	var targets []target
	for i, kind := range kinds {
		name := fmt.Sprintf("m%d", i)
		t := target{machine: machineOf(name, "n-"+name), node: nodeOf("n-" + name)}
		switch kind {
		case 'u':
			t.node = unready(t.node.Name, time.Hour)
		case 's':
			t.node = unready(t.node.Name, time.Minute)
		case 'd':
			t.machine.DeletionTimestamp = &metav1.Time{Time: start}
		case 'f':
			t.machine.Status.Phase = new("Failed")
		case 'n':
			t.node, t.machine.Status.NodeRef = nil, nil
		case 'y':
			t.node, t.machine.Status.NodeRef = nil, nil
			t.machine.CreationTimestamp = metav1.NewTime(start)
		}
		targets = append(targets, t)
	}
	return targets
}

// remedies lists the Machines that can be remediated, in order, and the obstacles of the others.
func (d *decision) text() string {
	var texts []string
	for _, r := range d.remedies {
		texts = append(texts, r.target.machine.Name)
	}
	for _, o := range d.obstacles {
		texts = append(texts, o.machine.Name+"="+o.reason)
	}
	return strings.Join(texts, " ")
}

func TestTotals(t *testing.T) {
	for _, c := range []struct {
		pool, limit                 string
		healthy, remediationsAllows int
		allowed                     bool
		remedies                    string
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
		// Those within their time, those that start and those that go are not healthy either.
		{"swww", "1", 3, 0, true, ""},
		{"suww", "1", 2, 0, false, ""},
		{"duww", "1", 2, 0, false, ""},
		{"yuww", "1", 2, 0, false, ""},
		{"yuww", "2", 2, 0, true, "m1"},
		{"yyyy", "40%", 0, 0, false, ""},
		{"dddd", "100%", 0, 0, true, ""},
		{"uuuu", "100%", 0, 0, true, "m0 m1 m2 m3"},
		{"uww", "bad", 2, 0, false, ""},
		// Those come first on which nothing can run.
		{"ufun", "100%", 0, 0, true, "m3 m1 m0 m2"},
	} {
		t.Run(c.pool+" "+c.limit, func(t *testing.T) {
			check := checkOf("c")
			check.Spec.MaxUnhealthy = new(intstr.FromString(c.limit))
			d := decide(&input{check: check, targets: pool(c.pool), now: start})
			if d.expected != len(c.pool) || d.healthy != c.healthy || d.unhealthy != d.expected-d.healthy || d.allowed != c.allowed ||
				d.remediationsAllowed() != c.remediationsAllows || d.text() != c.remedies {
				t.Errorf("%d expected, %d healthy, allowed %t (%d more), remedies %q", d.expected, d.healthy, d.allowed,
					d.remediationsAllowed(), d.text())
			}
			if (d.limitError != nil) != (c.limit == "bad") {
				t.Errorf("%v", d.limitError)
			}
		})
	}
}

func TestObstacles(t *testing.T) {
	annotated := func(key string) func(*target) {
		return func(t *target) { t.machine.Annotations = map[string]string{key: ""} }
	}
	authority := func(authority machinev1beta1.MachineAuthority) func(*target) {
		return func(t *target) { t.machine.Status.AuthoritativeAPI = authority }
	}
	orphan := func(t *target) { t.machine.OwnerReferences = nil }
	broken := func(t *target) { t.machine.Status.Phase = new("Failed") }
	template := func(c *machinev1beta1.MachineHealthCheck) { c.Spec.RemediationTemplate = &corev1.ObjectReference{} }
	bareMetal := func(c *machinev1beta1.MachineHealthCheck) {
		c.Annotations = map[string]string{AnnotationStrategy: StrategyBareMetal}
	}
	for name, c := range map[string]struct {
		check  func(*machinev1beta1.MachineHealthCheck)
		target func(*target)
		want   string
		means  means
	}{
		"nothing":                              {want: "m0", means: byDeletion},
		"no controller":                        {target: orphan, want: "m0=NoController"},
		"an owner that is no controller":       {target: func(t *target) { t.machine.OwnerReferences[0].Controller = nil }, want: "m0=NoController"},
		"skipped":                              {target: annotated(AnnotationSkip), want: "m0=SkippedByAnnotation"},
		"skipped, upstream":                    {target: annotated(AnnotationSkipUpstream), want: "m0=SkippedByAnnotation"},
		"paused":                               {target: annotated(paused.ClusterAPIAnnotation), want: "m0=MachinePaused"},
		"another API's":                        {target: authority("ClusterAPI"), want: "m0=AuthoritativeAPINotMachineAPI"},
		"on its way to another API":            {target: authority("Migrating"), want: "m0=AuthoritativeAPINotMachineAPI"},
		"this API's":                           {target: authority("MachineAPI"), want: "m0", means: byDeletion},
		"an older one acts":                    {target: func(t *target) { t.elder = "old" }, want: "m0=LeftToOlder"},
		"by template":                          {check: template, want: "m0", means: byTemplate},
		"by template, no controller":           {check: template, target: orphan, want: "m0", means: byTemplate},
		"by template, failed":                  {check: template, target: broken, want: "m0", means: byTemplate},
		"by template, skipped":                 {check: template, target: annotated(AnnotationSkip), want: "m0=SkippedByAnnotation"},
		"by template, requested":               {check: template, target: func(t *target) { t.requested = true }},
		"by annotation":                        {check: bareMetal, want: "m0", means: byAnnotation},
		"by annotation, no controller":         {check: bareMetal, target: orphan, want: "m0", means: byAnnotation},
		"by annotation, failed":                {check: bareMetal, target: broken, want: "m0", means: byDeletion},
		"by annotation, failed, no controller": {check: bareMetal, target: func(t *target) { orphan(t); broken(t) }, want: "m0=NoController"},
		"by annotation, done":                  {check: bareMetal, target: annotated(AnnotationExternal)},
		"by annotation, done, not seen":        {check: bareMetal, target: func(t *target) { t.behind = true }},
		"annotated, but not our way":           {target: annotated(AnnotationExternal), want: "m0", means: byDeletion},
		"another strategy": {check: func(c *machinev1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{AnnotationStrategy: "other"}
		}, want: "m0", means: byDeletion},
	} {
		t.Run(name, func(t *testing.T) {
			in := input{check: checkOf("c"), targets: pool("u"), now: start}
			if c.check != nil {
				c.check(in.check)
			}
			if c.target != nil {
				c.target(&in.targets[0])
			}
			d := decide(&in)
			if d.text() != c.want || d.unhealthy != 1 {
				t.Errorf("%q (%d unhealthy), want %q", d.text(), d.unhealthy, c.want)
			}
			if c.means != "" && d.remedies[0].means != c.means {
				t.Errorf("by %s, want %s", d.remedies[0].means, c.means)
			}
			if underway := d.text() == ""; underway != (d.underway == 1) {
				t.Errorf("%d under way", d.underway)
			}
			for _, o := range d.obstacles {
				if o.message == "" {
					t.Errorf("%s has no message", o.reason)
				}
			}
		})
	}
}

// A Machine that was skipped, or is somebody else's to remediate, eats up the budget like any other.
func TestSkippedOnesCount(t *testing.T) {
	check := checkOf("c")
	check.Spec.MaxUnhealthy = new(intstr.FromInt32(1))
	targets := pool("uuw")
	targets[0].machine.Annotations = map[string]string{AnnotationSkip: ""}
	if d := decide(&input{check: check, targets: targets, now: start}); d.allowed {
		t.Errorf("%d of %d is allowed", d.unhealthy, d.limit)
	}
}

func TestWhenToLookAgain(t *testing.T) {
	backOff := map[types.UID]round{"uid-of-set": {failures: 2, began: start.Add(-30 * time.Second), last: start.Add(-30 * time.Second)}}
	for _, c := range []struct {
		pool, limit string
		rounds      map[types.UID]round
		want        time.Duration
	}{
		{"www", "100%", nil, 0},
		{"sww", "100%", nil, 4*time.Minute + slack},
		{"syw", "100%", nil, 4*time.Minute + slack},
		{"yww", "100%", nil, 10*time.Minute + slack},
		{"uww", "100%", nil, 0},
		{"uww", "100%", backOff, 90 * time.Second},
		// While nothing is allowed, waiting for the end of a back-off is no use.
		{"uww", "0", backOff, 0},
		{"uuw", "1", nil, 0},
		{"suw", "1", nil, 4*time.Minute + slack},
	} {
		check := checkOf("c")
		check.Spec.MaxUnhealthy = new(intstr.FromString(c.limit))
		d := decide(&input{check: check, targets: pool(c.pool), rounds: c.rounds, now: start})
		var got time.Duration
		if !d.wake.IsZero() {
			got = d.wake.Sub(start)
		}
		if got != c.want {
			t.Errorf("%s, %s: in %s, want %s", c.pool, c.limit, got, c.want)
		}
	}
}

func TestTheOldestTroubleComesFirst(t *testing.T) {
	targets := pool("uuuu")
	targets[0].node, targets[1].node = unready("n-m0", 10*time.Minute), unready("n-m1", 30*time.Minute)
	targets[2].node, targets[3].node = unready("n-m2", 20*time.Minute), unready("n-m3", 30*time.Minute)
	if d := decide(&input{check: checkOf("c"), targets: targets, now: start}); d.text() != "m1 m3 m2 m0" {
		t.Errorf("%s", d.text())
	}
}
