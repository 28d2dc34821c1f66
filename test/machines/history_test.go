package machines

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/rollout/history"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// ofType is a template whose Machines have an instance type.
func ofType(name string) func(*kwok.ProviderSpec) {
	return func(spec *kwok.ProviderSpec) { spec.InstanceType = name }
}

// eventuallyOfType waits until all Machines of the pool are of the current template, and their Nodes of an instance type.
func (r *replacement) eventuallyOfType(count int, name string) {
	r.Helper()
	r.eventuallyReplaced(count)
	for _, machine := range r.Machines() {
		if kind := r.Node(machine.Status.NodeRef.Name).Labels["node.kubernetes.io/instance-type"]; kind != name {
			r.Errorf("Node %s has the instance type %q, not %q", machine.Status.NodeRef.Name, kind, name)
		}
	}
}

// eventuallyRevisions waits until the history of the MachineSet has these instance types, by their number.
func (r *replacement) eventuallyRevisions(want ...string) {
	r.Helper()
	subject := history.OfMachineSet(r.group(), cluster.MachineNamespace, r.Name)
	r.Eventually("the history is "+strings.Join(want, " "), func() error {
		all, err := history.List(r.Context(), r.Client, harness.SystemNamespace, &subject)
		if err != nil {
			return err
		}
		var found []string
		for _, revision := range history.Owned(all, subject.Group.UID) {
			set := harness.NewMachineSet(r.Name, 0)
			if err := history.RestoreMachineSet(set, revision); err != nil {
				return err
			}
			_, rest, _ := strings.Cut(string(set.Spec.Template.Spec.ProviderSpec.Value.Raw), `"instanceType":"`)
			kind, _, _ := strings.Cut(rest, `"`)
			found = append(found, fmt.Sprintf("%d:%s", revision.Revision, kind))
		}
		if !slices.Equal(found, want) {
			return fmt.Errorf("it is %v", found)
		}
		return nil
	})
}

// TestHistory_MachineSet: kubectl drover rollout undo gives a MachineSet its earlier templates back, Machines are replaced to them one after another,
// and the history is as long as the group wants.
func TestHistory_MachineSet(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("undone", 2, nil)
	p.Runs(2)
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Replacement.MaxSurge, spec.RevisionHistoryLimit = new(intstr.FromInt(1)), new(int32(2))
	})
	r.eventuallyRevisions("1:kwok.fake")
	for i, kind := range []string{"second", "third"} {
		r.setTemplate(ofType(kind))
		r.eventuallyOfType(2, kind)
		r.eventuallyRevisions([]string{"1:kwok.fake", "2:second", "3:third"}[:i+2]...)
	}
	r.plugin("3", "history", "machineset/undone")

	r.plugin("machineset.machine.openshift.io/undone rolled back", "undo", "machineset/undone")
	r.plugin("successfully rolled out", "status", "machineset/undone", "--timeout="+harness.Patience.String())
	r.eventuallyOfType(2, "second")
	r.eventuallyRevisions("1:kwok.fake", "3:third", "4:second")

	seen := followRack(p)
	before := p.Machines()
	r.plugin("rolled back", "undo", "undone", "--to-revision=1")
	r.eventuallyOfType(2, "kwok.fake")
	r.eventuallyRevisions("3:third", "4:second", "5:kwok.fake")
	if least, most, gone := seen.serving(before); least < 2 || most > 3 || len(gone) != 2 {
		t.Errorf("at least %d Nodes were Ready, at most %d Machines there, and these went: %v", least, most, gone)
	}

	r.setTemplate(ofType("fourth"))
	r.eventuallyRevisions("4:second", "5:kwok.fake", "6:fourth")
	r.update(func(spec *v1alpha1.NodeGroupSpec) { spec.RevisionHistoryLimit = new(int32(0)) })
	r.eventuallyRevisions("6:fourth")
	r.setTemplate(ofType("fifth"))
	r.eventuallyRevisions("7:fifth")
	r.eventuallyOfType(2, "fifth")
	output, code := plugin.Run(w, "rollout", "undo", "undone", "-n", cluster.MachineNamespace)
	if code != 1 || !strings.Contains(output, "roll back to") {
		t.Errorf("undo without a history has code %d: %s", code, output)
	}
}

// TestHistory_UndoOfFailingTemplate: undo ends a replacement that a failing template has stopped. The serving Machines stay, and the failed Machine
// is deleted.
func TestHistory_UndoOfFailingTemplate(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("regretted", 2, nil)
	old := p.Runs(2)
	r := replace(p, nil)
	r.eventuallyRevisions("1:kwok.fake")
	r.setTemplate(func(spec *kwok.ProviderSpec) { spec.Failure.Create = "InvalidConfiguration" })
	r.eventuallyBlocked("NewMachineFailed")
	r.plugin("rolled back", "undo", "regretted")
	r.eventuallyReplaced(2)
	r.expectUntouched(old)
}

// plugin runs kubectl drover rollout, and checks a part of what it prints.
func (r *replacement) plugin(part string, args ...string) {
	r.Helper()
	args = slices.Concat([]string{"rollout"}, args, []string{"-n", cluster.MachineNamespace})
	if output, code := plugin.Run(r.World, args...); code != 0 || !strings.Contains(output, part) {
		r.Fatalf("%v has code %d: %s", args, code, output)
	}
}
