package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// replaced is a cluster of two MachineSets with outdated Machines, and the NodeGroup that replaces them. Its Nodes are Ready.
func replaced() (*fakeCluster, *v1alpha1.NodeGroup) {
	f := &fakeCluster{}
	for name, count := range map[string]int32{"gpu-a": 6, "gpu-b": 2} {
		f.machineSet(name, int(count), func(set *machinev1beta1.MachineSet) {
			set.Spec.Replicas = &count
			set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"image":"new"}`)}
		})
	}
	for _, object := range f.all {
		switch object := object.(type) {
		case *machinev1beta1.Machine:
			object.Annotations = map[string]string{machineapi.TemplateHashAnnotation: "v1:old"}
		case *corev1.Node:
			object.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "gpu", UID: "group-gpu", Generation: 2}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: cmdutil.DefaultNamespace}
	group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	f.all = append(f.all, group)
	return f, group
}

// setOf finds a MachineSet again to edit it.
func (f *fakeCluster) setOf(name string) *machinev1beta1.MachineSet {
	at := slices.IndexFunc(f.all, func(object client.Object) bool {
		set, ok := object.(*machinev1beta1.MachineSet)
		return ok && set.Name == name
	})
	set, _ := f.all[at].(*machinev1beta1.MachineSet)
	return set
}

func TestPlan_Replacement(t *testing.T) {
	f, group := replaced()
	group.Spec.Disruption = &v1alpha1.Disruption{}
	f.machineOf("gpu-b-0").Annotations[machineapi.SkipReplacementAnnotation] = ""
	f.node("gpu-b-1").Spec.Unschedulable = true
	for name, args := range map[string][]string{
		"plan-replacement-nodegroup.txt":      {"plan", "nodegroup/gpu"},
		"plan-replacement-nodegroup-wide.txt": {"plan", "nodegroup/gpu", "-o", "wide"},
		"plan-replacement-machinesets.txt":    {"plan"},
	} {
		got := f.run(t, args...)
		if got.code != exitChanges || got.errors != "" {
			t.Errorf("%s: code %d, stderr %q", name, got.code, got.errors)
		}
		golden(t, name, got.out)
	}
	of := decodeJSON[view.NodeGroupPlanList](t, f.run(t, "plan", "ng/gpu", "-o", "json").out).Items[0]
	if r := of.Replacement; of.Summary.ToReplace != 7 || of.Summary.ToWrite != 0 || len(r.Machines) != 7 || r.Machines[0] != "gpu-a-0" ||
		r.Excluded != 1 || r.MaxSurge != 1 || r.MaxInFlight != 1 || !strings.Contains(r.Held, "maxUnavailable") {
		t.Errorf("%+v", of.Replacement)
	}
	sets := decodeJSON[view.PlanList](t, f.run(t, "plan", "gpu-b", "-o", "json").out)
	if len(sets.Items) != 1 || sets.Summary.ToReplace != 1 || !slices.Equal(sets.Items[0].Replacement.Machines, []string{"gpu-b-1"}) {
		t.Errorf("%+v", sets)
	}
}

// TestPlan_ReplacementHeld: what keeps outdated Machines waiting, and the exit code with it.
func TestPlan_ReplacementHeld(t *testing.T) {
	freeze := v1alpha1.Freeze{From: metav1.Time{Time: testTime.Add(-time.Hour)}, To: metav1.Time{Time: testTime.Add(time.Hour)}}
	for name, c := range map[string]struct {
		change func(f *fakeCluster, group *v1alpha1.NodeGroup)
		want   []string
		code   int
	}{
		"nothing": {
			func(*fakeCluster, *v1alpha1.NodeGroup) {}, []string{"at most 1 at a time, with up to 1 new beyond spec.replicas: gpu-a-0"}, exitChanges,
		},
		"three at a time, the old ones first": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) {
			group.Spec.Replacement.MaxSurge, group.Spec.Replacement.MaxInFlight = new(intstr.FromInt32(0)), new(intstr.FromString("30%"))
		}, []string{"8 Machines would be replaced, at most 3 at a time, each before its new one is created"}, exitChanges},
		"suspended": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) { group.Spec.Suspend = true },
			[]string{"Replacement: 8 outdated Machines: gpu-a-0", "held: the NodeGroup is suspended", "Nothing to change"}, exitOK},
		"paused": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) {
			group.Annotations = map[string]string{plan.AnnotationPaused: ""}
		},
			[]string{"held: the NodeGroup has the annotation drover.dev/paused"}, exitOK},
		"dry run": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) { group.Spec.DryRun = true }, []string{"dry run): 8 Machines would"}, exitChanges},
		"a freeze": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) {
			group.Spec.Disruption = &v1alpha1.Disruption{Freezes: []v1alpha1.Freeze{freeze}}
		}, []string{"held: no disruption begins until"}, exitChanges},
		"a ceiling": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) {
			group.Spec.Disruption = &v1alpha1.Disruption{PerCapability: []v1alpha1.CapabilityBudget{
				{Capability: v1alpha1.CapabilityReplacement, MaxUnavailable: intstr.FromInt32(0)},
			}}
		}, []string{"held: NodeGroup gpu: 0 Nodes are disrupted for Replacement, and its maxUnavailable is 0"}, exitChanges},
		"a new Machine has failed": {func(f *fakeCluster, _ *v1alpha1.NodeGroup) {
			machine := f.machineOf("gpu-a-3")
			delete(machine.Annotations, machineapi.TemplateHashAnnotation)
			machine.Spec.ProviderSpec.Value, machine.Status.ErrorMessage = f.setOf("gpu-a").Spec.Template.Spec.ProviderSpec.Value, new("no image")
		}, []string{"7 Machines would be replaced", "held: Machine gpu-a-3, which MachineSet gpu-a created from its current template"}, exitChanges},
		"the operator's own reason": {func(_ *fakeCluster, group *v1alpha1.NodeGroup) {
			group.Status.Conditions = []metav1.Condition{{
				Type: v1alpha1.ConditionBlocked, Status: metav1.ConditionTrue, Reason: "SurgeUnavailable", Message: "the capability machines is off",
			}}
		}, []string{"held: the capability machines is off"}, exitChanges},
		"a paused MachineSet": {func(f *fakeCluster, _ *v1alpha1.NodeGroup) {
			f.setOf("gpu-a").Annotations = map[string]string{plan.AnnotationPaused: "true"}
		}, []string{"2 Machines would be replaced", "6 outdated Machines would stay: paused"}, exitChanges},
		"no replacement": {
			func(_ *fakeCluster, group *v1alpha1.NodeGroup) { group.Spec.Replacement = nil }, []string{"Nothing to change: 8 Nodes."}, exitOK,
		},
		"nothing is outdated": {func(f *fakeCluster, _ *v1alpha1.NodeGroup) {
			for _, name := range []string{"gpu-a", "gpu-b"} {
				f.setOf(name).Spec.Template.Spec.ProviderSpec.Value = nil
			}
			for _, object := range f.all {
				if machine, ok := object.(*machinev1beta1.Machine); ok {
					machine.Annotations = nil
				}
			}
		}, []string{"Nothing to change: 8 Nodes."}, exitOK},
	} {
		t.Run(name, func(t *testing.T) {
			f, group := replaced()
			c.change(f, group)
			got := f.run(t, "plan", "nodegroup/gpu")
			if sets := f.run(t, "plan"); got.code != c.code || sets.code != c.code {
				t.Errorf("code %d, of MachineSets %d:\n%s\n%s", got.code, sets.code, got.out, sets.out)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("there is no %q in:\n%s", want, got.out)
				}
			}
		})
	}
}

// manifestYAML returns an object as a file has it.
func manifestYAML(t *testing.T, object client.Object, kind, version string) string {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(version, kind))
	text, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestPlan_ReplacementFile: what a changed template, or a NodeGroup that begins to replace Machines, would replace.
func TestPlan_ReplacementFile(t *testing.T) {
	f, group := replaced()
	manifest := func(object client.Object, kind, version string) string { return manifestYAML(t, object, kind, version) }
	begins := group.DeepCopy()
	group.Spec.Replacement = nil
	got := runOn(t, f.client(), manifest(begins, "NodeGroup", "drover.dev/v1alpha1"), "plan", "-f", "-")
	if got.code != exitChanges || !strings.Contains(got.out, "8 Machines would be replaced") {
		t.Errorf("%+v", got)
	}
	group.Spec.Replacement = begins.Spec.Replacement
	for _, object := range f.all {
		if machine, ok := object.(*machinev1beta1.Machine); ok {
			machine.Annotations[machineapi.TemplateHashAnnotation] = machineapi.TemplateOf(f.setOf("gpu-a")).Hash()
		}
	}
	changed := f.setOf("gpu-b").DeepCopy()
	changed.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"image":"newest"}`)
	got = runOn(t, f.client(), manifest(changed, "MachineSet", "machine.openshift.io/v1beta1"), "plan", "-f", "-")
	if got.code != exitChanges || !strings.Contains(got.out, "Replacement by NodeGroup gpu: 2 Machines would be replaced") {
		t.Errorf("%+v", got)
	}
}

// TestPlan_ReplacementUnknown: who may not read NodeGroups gets the rest of the plan, and a warning if it lacks anything.
func TestPlan_ReplacementUnknown(t *testing.T) {
	f, _ := replaced()
	forbidden := interceptor.NewClient(f.client(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, groups := list.(*v1alpha1.NodeGroupList); groups {
				return apierrors.NewForbidden(schema.GroupResource{Group: "drover.dev", Resource: "nodegroups"}, "", errors.New("no"))
			}
			return inner.List(ctx, list, options...)
		},
	})
	got := runOn(t, forbidden, "", "plan")
	if got.code != exitOK || !strings.Contains(got.errors, "which Machines would be replaced is unknown") {
		t.Errorf("%+v", got)
	}
	if got := runOn(t, forbidden, "", "status"); got.code != exitOK || got.errors != "" {
		t.Errorf("status: %+v", got)
	}
}

// TestPlanNodeGroup_OtherNamespace: the MachineSets of a group are read where they are, whatever the namespace of the command.
func TestPlanNodeGroup_OtherNamespace(t *testing.T) {
	f, _ := replaced()
	want := f.run(t, "plan", "nodegroup/gpu")
	if got := f.run(t, "plan", "nodegroup/gpu", "-n", "elsewhere"); got.code != exitChanges || got.out != want.out {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPlanNodeGroup_NotServed: a NodeGroup in a file is planned before Drover is installed.
func TestPlanNodeGroup_NotServed(t *testing.T) {
	f, group := replaced()
	file := manifestYAML(t, group, "NodeGroup", v1alpha1.GroupVersion.String())
	none := interceptor.NewClient(f.client(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, groups := list.(*v1alpha1.NodeGroupList); groups {
				return apierrors.NewNotFound(schema.GroupResource{Group: "drover.dev", Resource: "nodegroups"}, "")
			}
			return inner.List(ctx, list, options...)
		},
	})
	if got := runOn(t, none, file, "plan", "-f", "-"); got.code != exitChanges || !strings.Contains(got.out, "gpu") {
		t.Errorf("%+v", got)
	}
}
