package rollout

import (
	"context"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/rollout/history"
)

// subject is an object with its history.
type subject struct {
	client.Object
	// revisions are sorted by their number.
	revisions []*appsv1.ControllerRevision
	// data is what the object declares now.
	data []byte
	// namespace is Drover's.
	namespace string
}

// subjectOf reads the history of an object. Revisions are looked for in Drover's namespace alone: users who may write in others must not decide what
// nodes carry.
func subjectOf(ctx context.Context, o *cmdutil.Options, c client.Reader, object client.Object) (*subject, error) {
	data, err := dataOf(object)
	if err != nil {
		return nil, err
	}
	var of history.Subject
	var groups []*v1alpha1.NodeGroup
	switch object := object.(type) {
	case *v1alpha1.NodeGroup:
		of, groups = history.OfGroup(object), []*v1alpha1.NodeGroup{object}
	case *machinev1beta1.MachineSet:
		of = history.OfMachineSet(nil, object.Namespace, object.Name)
		if groups, err = groupsOf(ctx, c, object); err != nil {
			return nil, err
		}
	}
	all, err := cmdutil.List[*appsv1.ControllerRevision](ctx, c, o.DroverNamespace, client.MatchingLabels(of.Labels()))
	if err != nil {
		return nil, err
	}
	s := &subject{Object: object, data: data, namespace: o.DroverNamespace}
	for _, group := range groups {
		// The numbers of the revisions that another group has kept mean nothing beside those of the group that has the MachineSet now.
		if owned := history.Owned(all, group.UID); len(owned) > 0 {
			s.revisions = owned
			break
		}
	}
	history.Sort(s.revisions)
	return s, nil
}

// groupsOf returns all NodeGroups, the one that a MachineSet belongs to first.
func groupsOf(ctx context.Context, c client.Reader, set *machinev1beta1.MachineSet) ([]*v1alpha1.NodeGroup, error) {
	var snapshot cmdutil.Snapshot
	snapshot.ReadGroups(ctx, c)
	groups := snapshot.Groups
	if present := snapshot.Membership(ctx).OfSet(set); present != nil {
		groups = slices.Insert(groups, 0, present.NodeGroup)
	}
	return groups, snapshot.NoGroups
}

// target returns the revision to go back to: the one with a number, or for 0 the newest that is not declared now.
func (s *subject) target(number int64) (*appsv1.ControllerRevision, error) {
	if len(s.revisions) == 0 {
		return nil, s.missing()
	}
	if number > 0 {
		if found := history.Find(s.revisions, number); found != nil {
			return found, nil
		}
		const format = "unable to find specified revision %d in history of %s; kubectl drover rollout history lists them"
		return nil, fmt.Errorf(format, number, cmdutil.NameOf(s.Object))
	}
	if found := history.Previous(s.revisions, s.data); found != nil {
		return found, nil
	}
	return nil, fmt.Errorf("no last revision to roll back to: %s has declared nothing else since Drover keeps its history", cmdutil.NameOf(s.Object))
}

// missing says that there is no history.
func (s *subject) missing() error {
	const format = "no rollout history found for %s in namespace %q; --drover-namespace names the namespace that Drover is installed in"
	hint := ""
	if _, isSet := s.Object.(*machinev1beta1.MachineSet); isSet {
		hint = "; Drover keeps the templates of MachineSets that a NodeGroup with spec.replacement selects"
	}
	return fmt.Errorf(format+hint, cmdutil.NameOf(s.Object), s.namespace)
}

// dataOf returns what a revision holds of an object.
func dataOf(object client.Object) ([]byte, error) {
	switch object := object.(type) {
	case *v1alpha1.NodeGroup:
		return history.GroupData(object)
	case *machinev1beta1.MachineSet:
		return history.MachineSetData(object)
	}
	return nil, fmt.Errorf("%T has no history", object)
}

// restored returns an object as a revision has it.
func restored(object client.Object, revision *appsv1.ControllerRevision) (client.Object, error) {
	switch object := object.(type) {
	case *v1alpha1.NodeGroup:
		next := object.DeepCopy()
		return next, history.RestoreGroup(next, revision)
	case *machinev1beta1.MachineSet:
		next := object.DeepCopy()
		return next, history.RestoreMachineSet(next, revision)
	}
	return nil, fmt.Errorf("%T has no history", object)
}

// readAgain reads an object again, as another one.
func readAgain(ctx context.Context, c client.Reader, object client.Object) (client.Object, error) {
	var again client.Object = &machinev1beta1.MachineSet{}
	if _, isGroup := object.(*v1alpha1.NodeGroup); isGroup {
		again = &v1alpha1.NodeGroup{}
	}
	again.SetNamespace(object.GetNamespace())
	again.SetName(object.GetName())
	return again, read(ctx, c, again)
}

// isApplied reports whether kubectl apply has written the object.
func isApplied(object metav1.Object) bool {
	_, applied := object.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	return applied
}
