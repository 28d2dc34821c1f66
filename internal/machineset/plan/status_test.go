package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// said renders conditions, one "Type=Status Reason" each, with the severity where there is one.
func said(status *machinev1beta1.MachineSetStatus) string {
	var out []string
	for _, c := range status.Conditions {
		text := fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason)
		if c.Severity != "" {
			text += "/" + string(c.Severity)
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func observed(replicas int32, counts Counts) *Observation {
	return &Observation{Set: setOf(replicas), Selector: "pool=web", Counts: counts, Now: start.Add(123456789)}
}

func TestCount(t *testing.T) {
	set := setOf(3)
	set.Spec.MinReadySeconds = 60
	in := inputOf(set,
		machineOf("available"), machineOf("ready"), machineOf("sick"),
		machineOf("bare", noNode, func(m *machinev1beta1.Machine) { delete(m.Labels, "tier") }),
		machineOf("z-failed", noNode, withError("CreateError", "no quota")), machineOf("failed", noNode, inPhase("Failed")), machineOf("left-out"),
	)
	in.Readiness["ready"] = Readiness(nodeOf("ready", corev1.ConditionTrue, start))
	in.Readiness["sick"] = Readiness(nodeOf("sick", corev1.ConditionFalse, start))
	got := Count(Decide(in).Members, func(m *machinev1beta1.Machine) bool { return m.Name == "left-out" }, start)
	want := Counts{Replicas: 6, FullyLabelled: 5, Ready: 2, Available: 1, Unlinked: 3, Failed: []string{"failed", "z-failed (CreateError: no quota)"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestStatus_LongMessage(t *testing.T) {
	o := observed(3, Counts{Replicas: 3})
	o.Create = &Failure{Reason: ReasonInvalid, Message: strings.Repeat("x", 1<<20)}
	after, _ := o.Status()
	if after.ErrorMessage == nil || len(*after.ErrorMessage) > status.MaxMessage {
		t.Errorf("the error is %v", after.ErrorReason)
	}
	for _, condition := range after.Conditions {
		if len(condition.Message) > status.MaxMessage {
			t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
		}
	}
}

func TestStatus(t *testing.T) {
	full := Counts{Replicas: 3, FullyLabelled: 2, Ready: 3, Available: 1}
	const fine = "MachinesCreated=True Created, MachinesReady=True Ready, Paused=False NotPaused/Info, Resized=True Resized"
	for _, c := range []struct {
		name string
		in   *Observation
		edit func(*Observation)
		want string
		// errorReason and part are the status' error: a part of its message.
		errorReason, part string
	}{
		{"all is well", observed(3, full), nil, fine, "", ""},
		{"the authority is this API's", observed(3, full), func(o *Observation) { o.Set.Status.AuthoritativeAPI = "MachineAPI" },
			strings.ReplaceAll(fine, "NotPaused", "AuthoritativeAPIMachineAPI"), "", ""},
		{"none shall be, none is", observed(0, Counts{}), nil, fine, "", ""},
		{"some are missing", observed(5, full), nil, strings.ReplaceAll(fine, "True Resized", "False ScalingUp/Info"), "", ""},
		{"some are too many", observed(1, full), nil, strings.ReplaceAll(fine, "True Resized", "False ScalingDown/Info"), "", ""},
		{"paused", observed(3, full), func(o *Observation) { o.Set.Annotations = map[string]string{paused.ClusterAPIAnnotation: "false"} },
			strings.ReplaceAll(fine, "False NotPaused/Info", "True PausedByAnnotation"), "", ""},
		{"paused with another number", observed(1, full), func(o *Observation) { o.Set.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""} },
			"MachinesCreated=True Created, MachinesReady=True Ready, Paused=True PausedByAnnotation, Resized=False PausedByAnnotation/Info", "", ""},
		{"Machines without a Node", observed(3, Counts{Replicas: 3, Ready: 1, Unlinked: 1}), nil,
			strings.ReplaceAll(fine, "True Ready", "False WaitingForNodes/Info"), "", ""},
		{"Nodes that are not ready", observed(3, Counts{Replicas: 3, Ready: 1}), nil,
			strings.ReplaceAll(fine, "True Ready", "False NodesNotReady/Warning"), "", ""},
		{"failed ones, whatever else there is", observed(3, Counts{Replicas: 3, Ready: 1, Unlinked: 1, Failed: []string{"a"}}), nil,
			strings.ReplaceAll(fine, "True Ready", "False MachinesFailed/Warning"), "", ""},
		{"a problem of the set", observed(3, full), func(o *Observation) { o.Problem = "spec.deletePolicy" },
			strings.NewReplacer("True Created", "False InvalidConfiguration/Error", "True Resized", "False InvalidConfiguration/Error").Replace(fine),
			"InvalidConfiguration", "spec.deletePolicy"},
		{"Machines that cannot be created as they are", observed(5, full), func(o *Observation) { o.Create = &Failure{ReasonInvalid, "spec.providerSpec"} },
			"MachinesCreated=False InvalidConfiguration/Error, MachinesReady=True Ready, Paused=False NotPaused/Info, Resized=False ScalingUp/Info",
			"InvalidConfiguration", "spec.providerSpec"},
		{"Machines that cannot be created now", observed(5, full), func(o *Observation) { o.Create = &Failure{ReasonCreateError, "quota"} },
			"MachinesCreated=False CreateError/Warning, MachinesReady=True Ready, Paused=False NotPaused/Info, Resized=False ScalingUp/Info",
			"CreateError", "quota"},
		{"Machines that cannot be deleted", observed(1, full), func(o *Observation) { o.Scale = &Failure{ReasonDeleteError, "no"} },
			strings.ReplaceAll(fine, "True Resized", "False DeleteError/Warning"), "", ""},
		{"one that cannot be adopted", observed(3, full), func(o *Observation) { o.Scale = &Failure{ReasonOwnerError, "no"} },
			strings.ReplaceAll(fine, "True Resized", "False OwnerReferenceError/Warning"), "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.edit != nil {
				c.edit(c.in)
			}
			after, changed := c.in.Status()
			if got := said(&after); got != c.want || !changed {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			reason, message := "", ""
			if after.ErrorReason != nil && after.ErrorMessage != nil {
				reason, message = string(*after.ErrorReason), *after.ErrorMessage
			}
			if reason != c.errorReason || !strings.Contains(message, c.part) {
				t.Errorf("error %q %q", reason, message)
			}
			if after.Replicas != c.in.Counts.Replicas || after.ObservedGeneration != 3 || after.LabelSelector != "pool=web" {
				t.Errorf("%+v", after)
			}
			for _, condition := range after.Conditions {
				if !condition.LastTransitionTime.Time.Equal(start) {
					t.Errorf("%s changed at %s", condition.Type, condition.LastTransitionTime)
				}
			}
			// What was found an hour later is the same, so there is nothing to write.
			c.in.Set.Status, c.in.Now = after, start.Add(time.Hour)
			if again, changed := c.in.Status(); changed || said(&again) != c.want {
				t.Errorf("changed again: %s", said(&again))
			}
		})
	}
}

func TestStatus_ErrorIsCleared(t *testing.T) {
	o := observed(3, Counts{Replicas: 3, Ready: 3})
	o.Set.Status.ErrorReason, o.Set.Status.ErrorMessage = new(CreateError), new("quota")
	after, changed := o.Status()
	if !changed || after.ErrorReason != nil || after.ErrorMessage != nil {
		t.Errorf("%v %v", after.ErrorReason, after.ErrorMessage)
	}
}

func TestStatus_EveryFieldIsAChange(t *testing.T) {
	o := observed(3, Counts{Replicas: 3, FullyLabelled: 3, Ready: 3, Available: 3})
	before, _ := o.Status()
	for name, edit := range map[string]func(*Observation){
		"replicas":   func(o *Observation) { o.Counts.Replicas = 4 },
		"labels":     func(o *Observation) { o.Counts.FullyLabelled = 2 },
		"ready":      func(o *Observation) { o.Counts.Ready = 2 },
		"available":  func(o *Observation) { o.Counts.Available = 2 },
		"generation": func(o *Observation) { o.Set.Generation++ },
		"selector":   func(o *Observation) { o.Selector = "pool in (web)" },
		"an error":   func(o *Observation) { o.Create = &Failure{ReasonCreateError, "quota"} },
	} {
		next := observed(3, Counts{Replicas: 3, FullyLabelled: 3, Ready: 3, Available: 3})
		next.Set.Status = *before.DeepCopy()
		if _, changed := next.Status(); changed {
			t.Fatal("it is the same")
		}
		edit(next)
		if _, changed := next.Status(); !changed {
			t.Errorf("%s: nothing is written", name)
		}
	}
}

// TestStatus_Replacing: a Machine that is being replaced is none too many.
func TestStatus_Replacing(t *testing.T) {
	o := observed(3, Counts{Replicas: 4, Ready: 4})
	o.Surge = 1
	if after, _ := o.Status(); status.MachineCondition(after.Conditions, ConditionResized).Status != corev1.ConditionTrue {
		t.Errorf("%+v", after)
	}
	o.Counts.Replicas = 3
	after, _ := o.Status()
	const want = "There are 3 Machines; spec.replicas is 3, and 1 are being replaced"
	if c := status.MachineCondition(after.Conditions, ConditionResized); c.Reason != ReasonUp || c.Message != want {
		t.Errorf("%+v", c)
	}
}

// Without a selector the number of Machines is unknown.
func TestStatus_InvalidSelector(t *testing.T) {
	o := &Observation{Set: setOf(3), Problem: "spec.selector is empty", Now: start}
	o.Set.Status.Replicas, o.Set.Status.ReadyReplicas, o.Set.Status.LabelSelector = 7, 5, "pool=web"
	after, _ := o.Status()
	if after.Replicas != 7 || after.ReadyReplicas != 5 || after.LabelSelector != "pool=web" ||
		status.MachineCondition(after.Conditions, ConditionReady) != nil {
		t.Errorf("%+v", after)
	}
}

// The API server would refuse the whole status.
func TestStatus_LongSelector(t *testing.T) {
	o := observed(3, Counts{})
	o.Set.Status.LabelSelector = "before"
	for length, want := range map[int]string{maxSelector: strings.Repeat("x", maxSelector), maxSelector + 1: "before"} {
		o.Selector = strings.Repeat("x", length)
		if after, _ := o.Status(); after.LabelSelector != want {
			t.Errorf("%d: %d", length, len(after.LabelSelector))
		}
	}
}

// A condition's transition time moves with anything that the condition says. The conditions of others stay as they are.
func TestStatus_TransitionTimes(t *testing.T) {
	o := observed(5, Counts{Replicas: 3, Ready: 3})
	foreign := machinev1beta1.Condition{Type: "Synchronized", Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))}
	o.Set.Status.Conditions = []machinev1beta1.Condition{foreign}
	o.Set.Status, _ = o.Status()
	o.Now = start.Add(time.Minute)
	o.Counts.Replicas, o.Counts.Ready = 4, 4
	after, _ := o.Status()
	for kind, want := range map[machinev1beta1.ConditionType]time.Duration{
		ConditionResized: time.Minute, ConditionReady: 0, ConditionPaused: 0, ConditionCreated: 0, "Synchronized": -time.Hour,
	} {
		if c := status.MachineCondition(after.Conditions, kind); c == nil || !c.LastTransitionTime.Time.Equal(start.Add(want)) {
			t.Errorf("%s: %+v", kind, c)
		}
	}
	if c := status.MachineCondition(after.Conditions, ConditionResized); c.Message != "There are 4 Machines; spec.replicas is 5" {
		t.Error(c.Message)
	}
	if !slices.IsSortedFunc(after.Conditions, func(a, b machinev1beta1.Condition) int { return strings.Compare(string(a.Type), string(b.Type)) }) {
		t.Errorf("not in order: %s", said(&after))
	}
}

// The order of another writer alone is no reason to write.
func TestStatus_OrderOfConditions(t *testing.T) {
	o := observed(3, Counts{Replicas: 3, Ready: 3})
	o.Set.Status, _ = o.Status()
	slices.Reverse(o.Set.Status.Conditions)
	if _, changed := o.Status(); changed {
		t.Error("written for the order")
	}
}

func TestStatus_Messages(t *testing.T) {
	failed := []string{"a (CreateError: no quota)", "b", "c", "d", "e"}
	o := observed(9, Counts{Replicas: 9, Ready: 4, Failed: failed})
	after, _ := o.Status()
	if got, want := status.MachineCondition(after.Conditions, ConditionReady).Message,
		"4 of 9 Machines have a ready Node; 5 failed: a (CreateError: no quota), b, c and 2 more"; got != want {
		t.Error(got)
	}
	long := machineOf("a", withError("CreateError", strings.Repeat("ö", maxText)))
	if got := fault(long); got != " (CreateError: "+strings.Repeat("ö", maxText/2)+"...)" {
		t.Error(got)
	}
}

// The words of machine-api-operator: the migration of a cluster waits for them.
func TestStatusOtherAPI(t *testing.T) {
	before := &machinev1beta1.MachineSetStatus{AuthoritativeAPI: "Migrating", Replicas: 3}
	after, changed := StatusOtherAPI(before, start)
	c := status.MachineCondition(after.Conditions, ConditionPaused)
	if !changed || said(&after) != "Paused=True AuthoritativeAPINotMachineAPI" || c.Message != "The AuthoritativeAPI status is set to 'Migrating'" {
		t.Errorf("%s %+v", said(&after), c)
	}
	if _, changed := StatusOtherAPI(&after, start.Add(time.Hour)); changed || len(before.Conditions) > 0 {
		t.Error("written again, or the one before was changed")
	}
	after.AuthoritativeAPI = "ClusterAPI"
	last, changed := StatusOtherAPI(&after, start)
	if !changed || status.MachineCondition(last.Conditions, ConditionPaused).Message != "The AuthoritativeAPI status is set to 'ClusterAPI'" {
		t.Error("the message stays")
	}
}
