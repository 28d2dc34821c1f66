package plan

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/undecodable"
)

type values = map[string]string

const (
	owner = "autoscaling.openshift.io/machineautoscaler"
	minim = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size"
	maxim = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size"
)

// bounds are the annotations that web/1..5 gives.
func bounds(more ...values) values {
	all := values{owner: "machines/web", minim: "1", maxim: "5"}
	for _, one := range more {
		maps.Copy(all, one)
	}
	return all
}

func newSet(name string, annotations values) *machinev1beta1.MachineSet {
	return builder.MachineSet("machines", name, 0, func(set *machinev1beta1.MachineSet) { set.Annotations = annotations })
}

// newAutoscaler returns web, which bounds the MachineSet web to 1 to 5.
func newAutoscaler(changes ...func(*v1beta1.MachineAutoscaler)) *v1beta1.MachineAutoscaler {
	return builder.MachineAutoscaler("machines", "web", "web", slices.Insert(changes, 0, func(ma *v1beta1.MachineAutoscaler) {
		ma.Finalizers = []string{Finalizer}
	})...)
}

func deleted(ma *v1beta1.MachineAutoscaler) { ma.DeletionTimestamp = &metav1.Time{} }

func withBounds(from, to int32) func(*v1beta1.MachineAutoscaler) {
	return func(ma *v1beta1.MachineAutoscaler) { ma.Spec.MinReplicas, ma.Spec.MaxReplicas = from, to }
}

func withTarget(version, kind, name string) func(*v1beta1.MachineAutoscaler) {
	return func(ma *v1beta1.MachineAutoscaler) {
		ma.Spec.ScaleTargetRef = v1beta1.CrossVersionObjectReference{APIVersion: version, Kind: kind, Name: name}
	}
}

// outcome is what a plan does, by the names of MachineSets.
type outcome struct {
	// after has the annotations of MachineSets that change.
	after           map[string]values
	target          string
	add, remove     bool
	reason, message string
}

func TestDecide(t *testing.T) {
	user := values{"example.com/a": "b"}
	done := outcome{target: "web", reason: "SuccessfulUpdate", message: "Updated MachineAutoscaler target: machines/web"}
	updated := func(annotations values) outcome {
		o := done
		o.after = map[string]values{"web": annotations}
		return o
	}
	first := updated(bounds(user))
	first.add = true
	for name, c := range map[string]struct {
		ma   *v1beta1.MachineAutoscaler
		sets []*machinev1beta1.MachineSet
		want outcome
	}{
		"new: finalizer, bounds and owner": {
			newAutoscaler(func(ma *v1beta1.MachineAutoscaler) { ma.Finalizers = nil }), []*machinev1beta1.MachineSet{newSet("web", user)}, first,
		},
		"at rest: nothing": {newAutoscaler(), []*machinev1beta1.MachineSet{newSet("web", bounds(user))}, done},
		"a paused MachineSet: nothing": {
			newAutoscaler(func(ma *v1beta1.MachineAutoscaler) { ma.Finalizers = nil }),
			[]*machinev1beta1.MachineSet{newSet("web", values{"drover.dev/paused": "true"})},
			outcome{reason: "Paused", message: "the annotation drover.dev/paused pauses MachineSet machines/web"},
		},
		"other bounds": {
			newAutoscaler(withBounds(0, 9)), []*machinev1beta1.MachineSet{newSet("web", bounds())}, updated(bounds(values{minim: "0", maxim: "9"})),
		},
		"bounds of a user: theirs": {newAutoscaler(), []*machinev1beta1.MachineSet{newSet("web", values{minim: "3"})}, updated(bounds())},
		"the owner is gone: taken": {newAutoscaler(), []*machinev1beta1.MachineSet{newSet("web", values{owner: "machines/gone"})}, updated(bounds())},
		"another owner": {
			newAutoscaler(), []*machinev1beta1.MachineSet{newSet("web", values{owner: "machines/other", maxim: "3"})},
			outcome{reason: "FailedSetOwner", message: "Error setting target owner: already owned by another MachineAutoscaler: machines/other"},
		},
		"an owner of another namespace": {
			newAutoscaler(), []*machinev1beta1.MachineSet{newSet("web", values{owner: "elsewhere/gone"})},
			outcome{reason: "FailedSetOwner", message: "Error setting target owner: already owned by another MachineAutoscaler: elsewhere/gone"},
		},
		"another target: the old one is released": {
			newAutoscaler(withTarget("machine.openshift.io/v1beta1", "MachineSet", "db")),
			[]*machinev1beta1.MachineSet{newSet("web", bounds(user)), newSet("db", nil)},
			outcome{
				after: map[string]values{"web": user, "db": bounds()}, target: "db", reason: "SuccessfulUpdate",
				message: "Updated MachineAutoscaler target: machines/db",
			},
		},
		"no target: the old one is released": {
			newAutoscaler(withTarget("machine.openshift.io/v1beta1", "MachineSet", "db")), []*machinev1beta1.MachineSet{newSet("web", bounds(user))},
			outcome{
				after: map[string]values{"web": user}, reason: "FailedGetTarget",
				message: `Error getting target: machinesets.machine.openshift.io "db" not found`,
			},
		},
		"unsupported": {
			newAutoscaler(withTarget("cluster.k8s.io/v1alpha1", "MachineSet", "web")), nil,
			outcome{reason: "FailedGetTarget", message: "Error getting target: unsupported MachineAutoscaler target"},
		},
		"without a name": {
			newAutoscaler(withTarget("machine.openshift.io/v1beta1", "MachineSet", "")), nil,
			outcome{reason: "FailedGetTarget", message: "Error getting target: invalid MachineAutoscaler target"},
		},
		"no replicas": {
			newAutoscaler(withBounds(0, 0)), []*machinev1beta1.MachineSet{newSet("web", bounds())},
			outcome{reason: "FailedValidation", message: "min and max replicas must be greater than 0"},
		},
		"crossed bounds: those that are there stay": {
			newAutoscaler(withBounds(3, 2)), []*machinev1beta1.MachineSet{newSet("web", bounds())},
			outcome{reason: "FailedValidation", message: "max replicas must be greater than or equal to min"},
		},
		"paused": {
			newAutoscaler(func(ma *v1beta1.MachineAutoscaler) { ma.Annotations = values{"drover.dev/paused": ""} }),
			[]*machinev1beta1.MachineSet{newSet("web", nil)}, outcome{reason: "Paused", message: "the annotation drover.dev/paused pauses it"},
		},
		"deleted: its bounds go": {
			newAutoscaler(deleted), []*machinev1beta1.MachineSet{newSet("web", bounds(user)), newSet("db", values{owner: "machines/other", maxim: "3"})},
			outcome{after: map[string]values{"web": user}, remove: true},
		},
		"deleted, never supported": {newAutoscaler(deleted, withTarget("apps/v1", "Deployment", "web")), nil, outcome{remove: true}},
		"deleted, a second one: not its": {
			newAutoscaler(deleted), []*machinev1beta1.MachineSet{newSet("web", values{owner: "machines/other"})}, outcome{remove: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Autoscaler: c.ma, Sets: c.sets, Others: map[string]bool{"web": true, "other": true}}
			if diff := cmp.Diff(c.want, outcomeOf(Decide(in)), cmp.AllowUnexported(outcome{})); diff != "" {
				t.Errorf("wanted (-) and planned (+):\n%s", diff)
			}
		})
	}
}

func outcomeOf(plan Plan) outcome {
	o := outcome{add: plan.AddFinalizer, remove: plan.RemoveFinalizer, reason: plan.Reason, message: plan.Message}
	if plan.Target != nil {
		o.target = plan.Target.Name
	}
	changes := slices.Clone(plan.Releases)
	if plan.Update != nil {
		changes = append(changes, *plan.Update)
	}
	for _, change := range changes {
		if o.after == nil {
			o.after = map[string]values{}
		}
		o.after[change.Set.Name] = change.Annotations
	}
	return o
}

func TestCopyCapacity(t *testing.T) {
	const (
		p = "capacity.cluster-autoscaler.kubernetes.io/"
		g = "machine.openshift.io/"
	)
	old := values{g + "vCPU": "4", g + "memoryMb": "16384", g + "GPU": "1"}
	malformed := values{g + "vCPU": "x", g + "memoryMb": "1Gi", g + "GPU": "one"}
	none := values{g + "vCPU": "0", g + "memoryMb": "0", g + "GPU": "0"}
	copies := values{
		p + "cpu": "4", p + "memory": "17179869184", p + "gpu-count": "1", p + "gpu-type": "nvidia.com/gpu",
		"drover.dev/capacity-copy": `{"` + p + `cpu":"4","` + p + `gpu-count":"1","` + p + `gpu-type":"nvidia.com/gpu","` + p + `memory":"17179869184"}`,
	}
	join := func(all ...values) values {
		joined := values{}
		for _, one := range all {
			maps.Copy(joined, one)
		}
		return joined
	}
	for name, c := range map[string]struct{ before, after values }{
		"copied":                   {old, join(old, copies)},
		"at rest":                  {join(old, copies), join(old, copies)},
		"Drover writes the family": {join(old, values{"drover.dev/capacity": "{}"}), join(old, values{"drover.dev/capacity": "{}"})},
		"nothing to copy":          {values{}, values{}},
		"malformed":                {malformed, malformed},
		"not scalable":             {none, none},
		"refreshed": {
			values{g + "vCPU": "8", p + "cpu": "4", "drover.dev/capacity-copy": `{"` + p + `cpu":"4"}`},
			values{g + "vCPU": "8", p + "cpu": "8", "drover.dev/capacity-copy": `{"` + p + `cpu":"8"}`},
		},
		"the source is gone": {values{p + "cpu": "4", "drover.dev/capacity-copy": `{"` + p + `cpu":"4"}`}, values{}},
		"a user's value":     {values{g + "vCPU": "8", p + "cpu": "2"}, values{g + "vCPU": "8", p + "cpu": "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := maps.Clone(c.before)
			copyCapacity(got)
			if diff := cmp.Diff(c.after, got); diff != "" {
				t.Errorf("wanted (-) and written (+):\n%s", diff)
			}
		})
	}
	released := join(old, copies)
	if removeCopies(released); !maps.Equal(released, old) {
		t.Errorf("left: %v", released)
	}
}

func TestLacksAccelerator(t *testing.T) {
	for name, c := range map[string]struct {
		annotations values
		label       string
		want        bool
	}{
		"no GPUs":       {nil, "", false},
		"GPUs":          {values{"machine.openshift.io/GPU": "1"}, "", true},
		"with a label":  {values{"machine.openshift.io/GPU": "1"}, "nvidia-t4", false},
		"invalid label": {values{"capacity.cluster-autoscaler.kubernetes.io/gpu-count": "1"}, "not valid", true},
	} {
		set := newSet("web", c.annotations)
		set.Spec.Template.Spec.Labels = values{labelAccelerator: c.label}
		if got := lacksAccelerator(set); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDecide_UndecodableTarget: a MachineSet that cannot be decoded keeps its bounds, unless the MachineAutoscaler is being deleted.
func TestDecide_UndecodableTarget(t *testing.T) {
	set := &machinev1beta1.MachineSet{}
	text := `{"metadata":{"name":"web","namespace":"machines","annotations":{"` + owner + `":"machines/web"}},` +
		`"spec":{"template":{"spec":{"taints":[{"key":"a","effect":"NoSchedule","timeAdded":"2020-01-01t00:00:00z"}]}}}}`
	if err := undecodable.Decode([]byte(text), set); err != nil {
		t.Fatal(err)
	}
	in := &Input{Autoscaler: newAutoscaler(), Sets: []*machinev1beta1.MachineSet{set}}
	if plan := Decide(in); len(plan.Releases) != 0 || plan.Update != nil || !strings.Contains(plan.Message, "cannot be decoded") {
		t.Errorf("%+v", plan)
	}
	in.Autoscaler = newAutoscaler(deleted)
	if plan := Decide(in); len(plan.Releases) != 1 {
		t.Errorf("%+v", plan)
	}
}
