package nodegroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/rollout/history"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// revisions returns the revisions of a group in the namespace of the operator.
func (f *fixture) revisions(group *v1alpha1.NodeGroup) []*appsv1.ControllerRevision {
	f.Helper()
	subject := history.OfGroup(group)
	all, err := history.List(f.Context(), f.Client, harness.SystemNamespace, &subject)
	if err != nil {
		f.Fatal(err)
	}
	return history.Owned(all, group.UID)
}

// eventuallyRevisions waits until the history of a group has these values of the label team, by their number.
func (f *fixture) eventuallyRevisions(group *v1alpha1.NodeGroup, want ...string) {
	f.Helper()
	f.Eventually("the history is "+strings.Join(want, " "), func() error {
		var found []string
		for _, revision := range f.revisions(group) {
			declared := &v1alpha1.NodeGroup{}
			if err := history.RestoreGroup(declared, revision); err != nil {
				return err
			}
			found = append(found, fmt.Sprintf("%d:%s", revision.Revision, declared.Spec.Metadata.Labels["example.com/team"]))
		}
		if !slices.Equal(found, want) {
			return fmt.Errorf("it is %v", found)
		}
		return nil
	})
}

// histories counts the requests of the operator for revisions since a mark.
func (f *fixture) histories(mark cluster.AuditMark, write bool) int {
	f.Helper()
	if _, err := f.Cluster.Audit().Sync(f.Context()); err != nil {
		f.Fatal(err)
	}
	events, err := f.Cluster.Audit().Since(mark)
	if err != nil {
		f.Fatal(err)
	}
	return len(slices.DeleteFunc(events, func(e cluster.AuditEvent) bool {
		return e.User != harness.User || e.Resource != "controllerrevisions" || e.Write() != write
	}))
}

// TestHistory_Undo: kubectl drover rollout undo gives the Nodes back what they carried, the history is as long as the group wants, and nothing is
// written for a history that is complete, also after a restart. Revisions that the group does not own are left alone.
func TestHistory_Undo(t *testing.T) {
	f := newFixture(t, "history", 2)
	limit := int32(1)
	group := f.newGroup("history", withLabel("example.com/team", "blue"), func(spec *v1alpha1.NodeGroupSpec) { spec.RevisionHistoryLimit = &limit })
	group.Annotations = map[string]string{history.AnnotationCause: "the first"}
	f.create(group)
	operator := f.Operator(harness.Options{})
	f.eventuallyRevisions(group, "1:blue")
	foreign := f.forge(f.revisions(group)[0])

	f.update("history", withLabel("example.com/team", "red"))
	f.eventuallyRevisions(group, "1:blue", "2:red")
	f.eventuallyNode("history-01", "is red", hasLabel("example.com/team", "red"))
	output, code := plugin.Run(f.World, "rollout", "history", "ng/history")
	if code != 0 || strings.Contains(output, "99") || !strings.Contains(output, "the first") {
		t.Errorf("history has code %d: %s", code, output)
	}

	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	mark := f.AuditMark()
	f.Operator(harness.Options{})
	f.Eventually("the history has been read", func() error {
		if f.histories(mark, false) == 0 {
			return fmt.Errorf("the operator has not asked for it")
		}
		return nil
	})

	if output, code := plugin.Run(f.World, "rollout", "undo", "ng/history"); code != 0 || output != "nodegroup.drover.dev/history rolled back\n" {
		t.Fatalf("undo has code %d: %s", code, output)
	}
	if output, code := plugin.Run(f.World, "rollout", "status", "ng/history", "--timeout="+harness.Patience.String()); code != 0 {
		t.Errorf("status has code %d: %s", code, output)
	}
	for i := range 2 {
		f.eventuallyNode(fmt.Sprintf("history-%02d", i), "is blue again", hasLabel("example.com/team", "blue"))
	}
	f.eventuallyRevisions(group, "2:red", "3:blue")
	if writes := f.histories(mark, true); writes != 1 {
		t.Errorf("there were %d writes of revisions after the restart; one moves the revision that is declared again", writes)
	}
	f.update("history", withLabel("example.com/team", "green"))
	f.eventuallyRevisions(group, "3:blue", "4:green")
	if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign); err != nil || foreign.Revision != 99 {
		t.Errorf("the foreign revision has the number %d: %v", foreign.Revision, err)
	}
}

// TestHistory_UndoOfServerSideApply: a rollback of what a field manager applies warns, and that manager can apply again without force: it removes
// what the rollback has added, and what another command of the plugin has changed stays.
func TestHistory_UndoOfServerSideApply(t *testing.T) {
	f := besideOthers(t, "applied", 1)
	apply := func(labels string) {
		t.Helper()
		text := fmt.Sprintf("{apiVersion: drover.dev/v1alpha1, kind: NodeGroup, metadata: {name: applied}, "+
			"spec: {nodes: {selector: {matchLabels: {%s: applied}}}, metadata: {labels: {%s}}}}", labelPool, labels)
		output, err := harness.Kubectl(t.Context(), f.Cluster, strings.NewReader(text), "apply", "--server-side", "--field-manager=gitops", "-f", "-")
		if err != nil {
			t.Fatalf("%v: %s", err, output)
		}
	}
	f.Cleanup(func() {
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "applied"}}
		if err := f.Client.Delete(context.Background(), group); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	apply("example.com/team: blue, example.com/old: x")
	f.eventuallyRevisions(f.group("applied"), "1:blue")
	apply("example.com/team: red, example.com/new: x")
	f.eventuallyRevisions(f.group("applied"), "1:blue", "2:red")
	if output, code := plugin.Run(f.World, "rollout", "pause", "ng/applied"); code != 0 {
		t.Fatalf("pause has code %d: %s", code, output)
	}
	output, code := plugin.Run(f.World, "rollout", "undo", "ng/applied")
	if code != 0 || !strings.Contains(output, "is applied by gitops (server-side apply), whose next apply undoes the rollback") {
		t.Errorf("undo has code %d: %s", code, output)
	}
	if labels := f.group("applied").Spec.Metadata.Labels; len(labels) != 2 || labels["example.com/old"] != "x" {
		t.Errorf("after the rollback it declares %v", labels)
	}
	apply("example.com/team: green, example.com/new: x")
	group := f.group("applied")
	if labels := group.Spec.Metadata.Labels; len(labels) != 2 || labels["example.com/team"] != "green" || !group.Spec.Suspend {
		t.Errorf("after the next apply it declares %v; suspended: %v", labels, group.Spec.Suspend)
	}
}

// forge creates a revision with the labels of a group that does not own it.
func (f *fixture) forge(like *appsv1.ControllerRevision) *appsv1.ControllerRevision {
	f.Helper()
	forged := &appsv1.ControllerRevision{Revision: 99}
	forged.Namespace, forged.Name, forged.Labels = like.Namespace, "forged", like.Labels
	forged.Data = runtime.RawExtension{Raw: []byte(`{"spec":{"metadata":{"labels":{"example.com/team":"forged"}}}}`)}
	f.CreateWithCleanup(forged)
	return forged
}
