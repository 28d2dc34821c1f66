package plan

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newInput returns an Input whose MachineHealthCheck tolerates Ready=False for 5 minutes, Ready=Unknown for 10 minutes, and Bad=True for no time.
func newInput(change ...func(*machinev1beta1.MachineHealthCheck)) *Input {
	check := newCheck("c")
	check.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: metav1.Duration{Duration: 10 * time.Minute}},
		{Type: "Bad", Status: corev1.ConditionTrue},
	}
	for _, f := range change {
		f(check)
	}
	return &Input{Check: check, Now: start}
}

// withConditions returns a Node whose conditions have been so for some time.
func withConditions(age time.Duration, conditions ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	for pair := range slices.Chunk(conditions, 2) {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(pair[0]), Status: corev1.ConditionStatus(pair[1]), LastTransitionTime: metav1.NewTime(start.Add(-age)),
		})
	}
	return node
}

func TestAssess(t *testing.T) {
	type machine = machinev1beta1.Machine
	type of []func(*machine)
	phase := func(phase string) func(*machine) {
		return func(m *machine) { m.Status.Phase = &phase }
	}
	age := func(age time.Duration) func(*machine) {
		return func(m *machine) { m.CreationTimestamp = metav1.NewTime(start.Add(-age)) }
	}
	unlinked := func(m *machine) { m.Status.NodeRef = nil }
	phaseless := func(m *machine) { m.Status.Phase = nil }
	minutes := func(n int) time.Duration { return time.Duration(n)*time.Minute + Slack }
	deleted := func(m *machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }
	external := func(m *machine) { m.Annotations = map[string]string{ExternalAnnotation: "whatever"} }
	startup := func(timeout time.Duration) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) {
			c.Spec.NodeStartupTimeout = &metav1.Duration{Duration: timeout}
		}
	}
	for name, c := range map[string]struct {
		check   func(*machinev1beta1.MachineHealthCheck)
		machine of
		node    *corev1.Node
		late    time.Duration
		deleted bool
		want    Health
		recheck time.Duration
	}{
		"healthy":                            {node: withConditions(time.Hour, "Ready", "True"), want: Healthy},
		"a node without conditions":          {node: withConditions(time.Hour), want: Healthy},
		"a condition that is not checked":    {node: withConditions(time.Hour, "DiskPressure", "True"), want: Healthy},
		"failed":                             {machine: of{phase("Failed")}, node: withConditions(time.Hour, "Ready", "True"), want: Failed},
		"failed, without a node, young":      {machine: of{phase("Failed"), unlinked, age(0)}, want: Failed},
		"failed, start-up timeout off":       {check: startup(0), machine: of{phase("Failed"), unlinked}, want: Failed},
		"failed and deleted":                 {machine: of{phase("Failed"), deleted}, want: Deleting},
		"deleted, its node is healthy":       {machine: of{deleted}, node: withConditions(time.Hour, "Ready", "True"), want: Deleting},
		"deleted by Drover, cache stale":     {deleted: true, node: withConditions(time.Hour, "Ready", "False"), want: Deleting},
		"no node, time is left":              {machine: of{unlinked, age(4 * time.Minute)}, want: Starting, recheck: minutes(6)},
		"no node, the last moment":           {machine: of{unlinked, age(10 * time.Minute)}, want: Starting, recheck: Slack},
		"no node, time is over":              {machine: of{unlinked, age(10*time.Minute + time.Second)}, want: NodeStartupTimedOut},
		"no node, a shorter timeout":         {check: startup(time.Second), machine: of{unlinked, age(2 * time.Second)}, want: NodeStartupTimedOut},
		"no node, start-up timeout off":      {check: startup(0), machine: of{unlinked, age(time.Hour)}, want: StartingUntimed},
		"not provisioned yet":                {machine: of{unlinked, age(time.Hour), phase("")}, want: Starting},
		"provisioned late, time is left":     {machine: of{unlinked, age(time.Hour)}, late: 4 * time.Minute, want: Starting, recheck: minutes(6)},
		"provisioned late, time is over":     {machine: of{unlinked, age(time.Hour)}, late: 11 * time.Minute, want: NodeStartupTimedOut},
		"the node is gone":                   {want: NodeNotFound},
		"the node is gone, machine is young": {machine: of{age(0)}, want: NodeNotFound},
		"not ready, time is left":            {node: withConditions(4*time.Minute, "Ready", "False"), want: Degraded, recheck: minutes(1)},
		"not ready, the last moment":         {node: withConditions(5*time.Minute, "Ready", "False"), want: Degraded, recheck: Slack},
		"not ready, time is over":            {node: withConditions(5*time.Minute+time.Second, "Ready", "False"), want: Unhealthy},
		"unknown, the other timeout": {
			node: withConditions(5*time.Minute+time.Second, "Ready", "Unknown"), want: Degraded, recheck: 5 * time.Minute,
		},
		"unknown, time is over":                    {node: withConditions(10*time.Minute+time.Second, "Ready", "Unknown"), want: Unhealthy},
		"no timeout: at once":                      {node: withConditions(time.Second, "Ready", "True", "Bad", "True"), want: Unhealthy},
		"no timeout, the same moment":              {node: withConditions(0, "Ready", "True", "Bad", "True"), want: Degraded, recheck: Slack},
		"one of two rules is over":                 {node: withConditions(time.Minute, "Ready", "False", "Bad", "True"), want: Unhealthy},
		"a time in the future":                     {node: withConditions(-time.Minute, "Ready", "False"), want: Degraded, recheck: minutes(6)},
		"healthy, external remediation":            {machine: of{external}, node: withConditions(time.Hour, "Ready", "True"), want: UnderRepair},
		"not ready for long, external remediation": {machine: of{external}, node: withConditions(time.Hour, "Ready", "False"), want: Unhealthy},
		"without a phase, with a node":             {machine: of{phase("")}, node: withConditions(time.Hour, "Ready", "True"), want: Healthy},
		"status that was written just now":         {machine: of{unlinked, age(time.Hour), updated}, want: NodeStartupTimedOut},
		"a node whose machine has no phase":        {machine: of{phaseless}, node: withConditions(time.Hour, "Ready", "False"), want: Unhealthy},
		"provisioned late, after a restart": {
			check: unset, machine: of{unlinked, age(time.Hour), withTransitions(4*time.Minute, 6*time.Minute, time.Minute)},
			want: Starting, recheck: minutes(4),
		},
		"provisioned long ago, after a restart": {
			check: unset, machine: of{unlinked, age(time.Hour), withTransitions(11*time.Minute, time.Minute)}, want: NodeStartupTimedOut,
		},
		"without a start-up timeout": {check: unset, machine: of{unlinked, age(9 * time.Minute)}, want: Starting, recheck: minutes(1)},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput()
			if c.check != nil {
				c.check(in.Check)
			}
			subject := Target{Machine: newMachine("m1", "n1"), Node: c.node, Deleted: c.deleted}
			for _, change := range c.machine {
				change(subject.Machine)
			}
			if c.late != 0 {
				subject.Unprovisioned = start.Add(-c.late)
			}
			a := in.assess(&subject)
			if a.Health != c.want {
				t.Errorf("health %s, want %s (%s)", a.Health, c.want, a.Message)
			}
			var recheck time.Duration
			if !a.Recheck.IsZero() {
				recheck = a.Recheck.Sub(start)
			}
			if recheck != c.recheck {
				t.Errorf("rechecks in %s, want %s", recheck, c.recheck)
			}
			if a.Health.NeedsRemediation() && (a.Message == "" || !a.Recheck.IsZero()) {
				t.Errorf("no message, or a recheck of what needs remediation: %+v", a)
			}
		})
	}
}

// updated sets status.lastUpdated. machine-api-operator measures the startup timeout from it.
func updated(m *machinev1beta1.Machine) { m.Status.LastUpdated = &metav1.Time{Time: start} }

// withTransitions adds a condition for each time since its transition.
func withTransitions(ages ...time.Duration) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) {
		for _, age := range ages {
			m.Status.Conditions = append(m.Status.Conditions, machinev1beta1.Condition{LastTransitionTime: metav1.NewTime(start.Add(-age))})
		}
	}
}

func unset(c *machinev1beta1.MachineHealthCheck) { c.Spec.NodeStartupTimeout = nil }

func TestAssess_FirstRecheckCounts(t *testing.T) {
	in := newInput(func(c *machinev1beta1.MachineHealthCheck) { c.Spec.UnhealthyConditions[2].Timeout.Duration = time.Hour })
	a := in.assess(&Target{Machine: newMachine("m1", "n1"), Node: withConditions(time.Minute, "Bad", "True", "Ready", "False")})
	if a.Health != Degraded || a.Recheck.Sub(start) != 4*time.Minute+Slack {
		t.Errorf("%+v", a)
	}
}

func TestAssess_MessageOfFailedMachine(t *testing.T) {
	machine := newMachine("m1", "")
	machine.Status.Phase, machine.Status.ErrorMessage = new("Failed"), new("no such image")
	if a := newInput().assess(&Target{Machine: machine}); a.Message != "its phase is Failed: no such image" {
		t.Errorf("%q", a.Message)
	}
}
