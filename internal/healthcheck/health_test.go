package healthcheck

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// judging is the table's usual case: Ready that is False for 5 minutes, or Unknown for 10 minutes, or a condition Bad at once.
func judging(change ...func(*machinev1beta1.MachineHealthCheck)) *input {
	check := checkOf("c")
	check.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: metav1.Duration{Duration: 5 * time.Minute}},
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, Timeout: metav1.Duration{Duration: 10 * time.Minute}},
		{Type: "Bad", Status: corev1.ConditionTrue},
	}
	for _, f := range change {
		f(check)
	}
	return &input{check: check, now: start}
}

// nodeIs makes a Node whose conditions have been so for some time.
func nodeIs(age time.Duration, conditions ...string) *corev1.Node {
	node := nodeOf("n1")
	node.Status.Conditions = nil
	for pair := range slices.Chunk(conditions, 2) {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: corev1.NodeConditionType(pair[0]), Status: corev1.ConditionStatus(pair[1]), LastTransitionTime: metav1.NewTime(start.Add(-age)),
		})
	}
	return node
}

// The rules of spec 4.2, of which the first that fires counts.
func TestVerdicts(t *testing.T) {
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
	minutes := func(n int) time.Duration { return time.Duration(n)*time.Minute + slack }
	deleted := func(m *machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }
	external := func(m *machine) { m.Annotations = map[string]string{AnnotationExternal: "whatever"} }
	startup := func(timeout time.Duration) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) {
			c.Spec.NodeStartupTimeout = &metav1.Duration{Duration: timeout}
		}
	}
	for name, c := range map[string]struct {
		check   func(*machinev1beta1.MachineHealthCheck)
		machine of
		node    *corev1.Node
		idle    time.Duration
		leaving bool
		want    finding
		recheck time.Duration
	}{
		"well":                                {node: nodeIs(time.Hour, "Ready", "True"), want: foundHealthy},
		"a node without conditions":           {node: nodeIs(time.Hour), want: foundHealthy},
		"a condition that nobody named":       {node: nodeIs(time.Hour, "DiskPressure", "True"), want: foundHealthy},
		"failed":                              {machine: of{phase("Failed")}, node: nodeIs(time.Hour, "Ready", "True"), want: foundFailed},
		"failed, without a node, young":       {machine: of{phase("Failed"), unlinked, age(0)}, want: foundFailed},
		"failed, start-up timeout off":        {check: startup(0), machine: of{phase("Failed"), unlinked}, want: foundFailed},
		"failed and deleted":                  {machine: of{phase("Failed"), deleted}, want: foundDeleting},
		"deleted, its node is well":           {machine: of{deleted}, node: nodeIs(time.Hour, "Ready", "True"), want: foundDeleting},
		"deleted by us, not seen yet":         {leaving: true, node: nodeIs(time.Hour, "Ready", "False"), want: foundDeleting},
		"no node, time is left":               {machine: of{unlinked, age(4 * time.Minute)}, want: foundStarting, recheck: minutes(6)},
		"no node, the last moment":            {machine: of{unlinked, age(10 * time.Minute)}, want: foundStarting, recheck: slack},
		"no node, time is over":               {machine: of{unlinked, age(10*time.Minute + time.Second)}, want: foundLate},
		"no node, a shorter timeout":          {check: startup(time.Second), machine: of{unlinked, age(2 * time.Second)}, want: foundLate},
		"no node, start-up timeout off":       {check: startup(0), machine: of{unlinked, age(time.Hour)}, want: foundUntimed},
		"nobody has begun":                    {machine: of{unlinked, age(time.Hour), phase("")}, want: foundStarting},
		"begun late, time is left":            {machine: of{unlinked, age(time.Hour)}, idle: 4 * time.Minute, want: foundStarting, recheck: minutes(6)},
		"begun late, time is over":            {machine: of{unlinked, age(time.Hour)}, idle: 11 * time.Minute, want: foundLate},
		"the node is gone":                    {want: foundNodeGone},
		"the node is gone, machine is young":  {machine: of{age(0)}, want: foundNodeGone},
		"not ready, time is left":             {node: nodeIs(4*time.Minute, "Ready", "False"), want: foundSuspect, recheck: minutes(1)},
		"not ready, the last moment":          {node: nodeIs(5*time.Minute, "Ready", "False"), want: foundSuspect, recheck: slack},
		"not ready, time is over":             {node: nodeIs(5*time.Minute+time.Second, "Ready", "False"), want: foundUnhealthy},
		"unknown, the other timeout":          {node: nodeIs(5*time.Minute+time.Second, "Ready", "Unknown"), want: foundSuspect, recheck: 5 * time.Minute},
		"unknown, time is over":               {node: nodeIs(10*time.Minute+time.Second, "Ready", "Unknown"), want: foundUnhealthy},
		"no timeout: at once":                 {node: nodeIs(time.Second, "Ready", "True", "Bad", "True"), want: foundUnhealthy},
		"no timeout, the same moment":         {node: nodeIs(0, "Ready", "True", "Bad", "True"), want: foundSuspect, recheck: slack},
		"one of two rules is over":            {node: nodeIs(time.Minute, "Ready", "False", "Bad", "True"), want: foundUnhealthy},
		"a time in the future":                {node: nodeIs(-time.Minute, "Ready", "False"), want: foundSuspect, recheck: minutes(6)},
		"well, and handed over":               {machine: of{external}, node: nodeIs(time.Hour, "Ready", "True"), want: foundRepairing},
		"not ready for long, and handed over": {machine: of{external}, node: nodeIs(time.Hour, "Ready", "False"), want: foundUnhealthy},
		"without a phase, with a node":        {machine: of{phase("")}, node: nodeIs(time.Hour, "Ready", "True"), want: foundHealthy},
		"status that was written just now":    {machine: of{unlinked, age(time.Hour), updated}, want: foundLate},
		"a node whose machine has no phase":   {machine: of{phaseless}, node: nodeIs(time.Hour, "Ready", "False"), want: foundUnhealthy},
		"begun late, after a restart": {
			check: unset, machine: of{unlinked, age(time.Hour), said(4*time.Minute, 6*time.Minute, time.Minute)}, want: foundStarting, recheck: minutes(4),
		},
		"begun long ago, after a restart": {check: unset, machine: of{unlinked, age(time.Hour), said(11*time.Minute, time.Minute)}, want: foundLate},
		"without a start-up timeout":      {check: unset, machine: of{unlinked, age(9 * time.Minute)}, want: foundStarting, recheck: minutes(1)},
	} {
		t.Run(name, func(t *testing.T) {
			in := judging()
			if c.check != nil {
				c.check(in.check)
			}
			subject := target{machine: machineOf("m1", "n1"), node: c.node, leaving: c.leaving}
			for _, change := range c.machine {
				change(subject.machine)
			}
			if c.idle != 0 {
				subject.idle = start.Add(-c.idle)
			}
			v := in.judge(&subject)
			if v.finding != c.want {
				t.Errorf("found %s, want %s (%s)", v.finding, c.want, v.text)
			}
			var recheck time.Duration
			if !v.recheck.IsZero() {
				recheck = v.recheck.Sub(start)
			}
			if recheck != c.recheck {
				t.Errorf("looks again in %s, want %s", recheck, c.recheck)
			}
			if v.finding.due() && (v.text == "" || !v.recheck.IsZero()) {
				t.Errorf("no reason, or a next look at what is due: %+v", v)
			}
		})
	}
}

// The incumbent's clock starts anew with every write of the status.
func updated(m *machinev1beta1.Machine) { m.Status.LastUpdated = &metav1.Time{Time: start} }

// said gives the Machine conditions that have been as they are for so long.
func said(ages ...time.Duration) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) {
		for _, age := range ages {
			m.Status.Conditions = append(m.Status.Conditions, machinev1beta1.Condition{LastTransitionTime: metav1.NewTime(start.Add(-age))})
		}
	}
}

func unset(c *machinev1beta1.MachineHealthCheck) { c.Spec.NodeStartupTimeout = nil }

func TestTheSoonestRecheckCounts(t *testing.T) {
	in := judging(func(c *machinev1beta1.MachineHealthCheck) { c.Spec.UnhealthyConditions[2].Timeout.Duration = time.Hour })
	v := in.judge(&target{machine: machineOf("m1", "n1"), node: nodeIs(time.Minute, "Bad", "True", "Ready", "False")})
	if v.finding != foundSuspect || v.recheck.Sub(start) != 4*time.Minute+slack {
		t.Errorf("%+v", v)
	}
}

func TestTheCauseOfAFailureIsTold(t *testing.T) {
	machine := machineOf("m1", "")
	machine.Status.Phase, machine.Status.ErrorMessage = new("Failed"), new("no such image")
	if v := judging().judge(&target{machine: machine}); v.text != "its phase is Failed: no such image" {
		t.Errorf("%q", v.text)
	}
}

func TestEarliest(t *testing.T) {
	later := start.Add(time.Second)
	for _, c := range []struct{ a, b, want time.Time }{
		{time.Time{}, time.Time{}, time.Time{}}, {start, time.Time{}, start}, {time.Time{}, start, start}, {start, later, start}, {later, start, start},
	} {
		if got := earliest(c.a, c.b); got != c.want {
			t.Errorf("of %s and %s: %s", c.a, c.b, got)
		}
	}
}
