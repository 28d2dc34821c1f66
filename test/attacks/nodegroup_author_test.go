package attacks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/test/harness"
)

const groupAuthor = "author of NodeGroups who may not patch nodes"

// groupAuthors is a control plane, and a user who may write NodeGroups with their status, and nothing else.
type groupAuthors struct {
	*harness.World
	as client.Client
}

// newGroupAuthors waits until the policy denies the user what it denies.
func newGroupAuthors(t *testing.T, rules ...rbacv1.PolicyRule) *groupAuthors {
	t.Helper()
	w := harness.NewWorld(t, env)
	name := metav1.ObjectMeta{Name: "attacks-groups"}
	w.CreateWithCleanup(&rbacv1.ClusterRole{ObjectMeta: name, Rules: append([]rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"nodegroups", "nodegroups/status"}, Verbs: []string{"*"},
	}}, rules...)})
	w.CreateWithCleanup(&rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "group-author"}},
	})
	config, err := env.As("group-author")
	if err != nil {
		t.Fatal(err)
	}
	a := &groupAuthors{World: w, as: harness.ClientFor(t, config)}
	w.Eventually("the role is in force", func() error { return a.as.List(t.Context(), &v1alpha1.NodeGroupList{}) })
	w.Eventually("the policy is in force", func() error {
		group := newGroup("probe")
		group.Spec.Nodes, group.Spec.Replacement = replaced("elsewhere")
		if err := a.as.Create(t.Context(), group, client.DryRunAll); err == nil {
			return errors.New("the user may create NodeGroups")
		}
		return nil
	})
	return a
}

// newGroup returns a NodeGroup of no Node, which takes away what it has declared.
func newGroup(name string) *v1alpha1.NodeGroup {
	return &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeGroupSpec{
		Nodes:    v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/attacked": name}}},
		Metadata: &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"example.com/team": "blue"}, OnRelease: v1alpha1.ReleaseRemove},
	}}
}

// replaced returns what a group says that replaces Machines of a namespace.
func replaced(namespace string) (v1alpha1.NodeSelection, *v1alpha1.Replacement) {
	return v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: namespace}},
		&v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
}

// add creates a NodeGroup as an administrator.
func (a *groupAuthors) add(group *v1alpha1.NodeGroup) *v1alpha1.NodeGroup {
	a.Helper()
	a.CreateWithCleanup(group)
	return group
}

// patch writes a NodeGroup as the attacker; nothing stays of it.
func (a *groupAuthors) patch(group *v1alpha1.NodeGroup, text string) error {
	return a.as.Patch(a.Context(), group.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
}

func TestGroupAuthor_WithoutRights(t *testing.T) {
	a := newGroupAuthors(t)
	group := newGroup("attacked")
	group.Annotations = map[string]string{"example.com/note": "x"}
	a.add(group)
	for attempt, text := range map[string]string{
		"has the garbage collector delete the group, by an owner that is gone": goneOwner,
		"pauses the group by an annotation without a value":                    `{"metadata":{"annotations":{"` + paused.Annotation + `":""}}}`,
		"pauses the group by Cluster API's annotation without a value":         `{"metadata":{"annotations":{"` + paused.ClusterAPIAnnotation + `":""}}}`,
		"keeps the group by a finalizer when an administrator deletes it":      `{"metadata":{"finalizers":["example.com/mine"]}}`,
	} {
		attack(t, groupAuthor, attempt, func(t *testing.T) string { return denied(t, a.patch(group, text)) })
	}
	held := newGroup("held")
	held.Annotations, held.Finalizers = map[string]string{paused.ClusterAPIAnnotation: ""}, []string{v1alpha1.Finalizer}
	a.add(held)
	defer a.Merge(held, `{"metadata":{"finalizers":null}}`)
	for attempt, text := range map[string]string{
		"ends a pause that has no value":                                    `{"metadata":{"annotations":null}}`,
		"takes the finalizer off the group, so that Nodes are not released": `{"metadata":{"finalizers":null}}`,
	} {
		attack(t, groupAuthor, attempt, func(t *testing.T) string { return denied(t, a.patch(held, text)) })
	}
	attack(t, groupAuthor, "deletes the group", func(t *testing.T) string {
		return denied(t, a.as.Delete(t.Context(), group.DeepCopy(), client.DryRunAll))
	})
	if err := a.patch(group, `{"metadata":{"labels":{"example.com/mine":"yes"},"annotations":{"example.com/note":""}}}`); err != nil {
		t.Error("the user may not write other metadata:", err)
	}
}

// TestGroupAuthor_Replacement: MachineSets delete the surplus Machines of a replacement that ends.
func TestGroupAuthor_Replacement(t *testing.T) {
	const attacker = "author of NodeGroups who may patch nodes, and not delete Machines"
	a := newGroupAuthors(t, rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: []string{"nodes"}, Verbs: []string{"patch"}})
	group := newGroup("replacing")
	group.Spec.Nodes, group.Spec.Replacement = replaced("attacks-elsewhere")
	a.add(group)
	a.Eventually("the user may write NodeGroups that replace nothing", func() error {
		return a.as.Create(t.Context(), newGroup("probe"), client.DryRunAll)
	})
	for attempt, text := range map[string]string{
		"ends a replacement that has begun":                                `{"spec":{"replacement":null}}`,
		"has the garbage collector delete the group that replaces":         goneOwner,
		"continues a replacement that has stopped, by an empty annotation": `{"metadata":{"annotations":{"` + v1alpha1.AnnotationResume + `":""}}}`,
	} {
		attack(t, attacker, attempt, func(t *testing.T) string { return denied(t, a.patch(group, text)) })
	}
	// Who has the rights in both namespaces may move it.
	moved := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"nodes":{"machineSets":{"namespace":"attacks-another"}}}}`))
	if err := a.Client.Patch(t.Context(), group.DeepCopy(), moved, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// TestGroupAuthor_Status: the status says how long a roll-out waits, and what has failed.
func TestGroupAuthor_Status(t *testing.T) {
	a := newGroupAuthors(t)
	group := a.add(newGroup("forged"))
	forged := func(as client.Client, text string) error {
		return as.Status().Patch(t.Context(), group.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	for attempt, text := range map[string]string{
		"ends the pause between two waves":               `{"status":{"rollout":{"waveEndTime":"2020-01-01T00:00:00Z"}}}`,
		"resumes a roll-out that has stopped":            `{"status":{"rollout":{"stopped":"","resumeTime":"2026-01-01T00:00:00Z"}}}`,
		"ends the interval between two remediations":     `{"status":{"lastRemediationTime":null}}`,
		"has keys removed that the group never declared": `{"status":{"ownedKeys":["taint/example.com/quarantine:NoSchedule"]}}`,
		"writes that the roll-out has ended":             `{"status":{"rollout":{"endTime":"2026-01-01T00:00:00Z"}}}`,
	} {
		attack(t, groupAuthor, attempt, func(t *testing.T) string { return denied(t, forged(a.as, text)) })
	}
	config, err := env.AsServiceAccount(t.Context(), harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	if err := forged(harness.ClientFor(t, config), `{"status":{"nodes":1}}`); err != nil {
		t.Error("Drover may not write the status:", err)
	}
}

// TestGroupAuthor_StatusWithoutPolicy: where the policy is missing, Drover knows what it has written itself.
func TestGroupAuthor_StatusWithoutPolicy(t *testing.T) {
	a := newGroupAuthors(t)
	withoutPolicy(t, a.World, "drover-nodegroups")
	group := newGroup("waves")
	nodes := a.Site().AddNodes(2, func(node *corev1.Node) { node.Labels["example.com/attacked"] = group.Name })
	group.Spec.Rollout = &v1alpha1.Rollout{MaxInFlight: new(intstr.FromInt32(1)), Pause: &metav1.Duration{Duration: 168 * time.Hour}}
	operator := harness.Start(t, env, harness.Options{Args: []string{"--controllers=node-groups"}})
	if err := operator.Says(t.Context(), "capability node-groups: running"); err != nil {
		t.Fatal(err)
	}
	a.add(group)
	t.Cleanup(func() { // without an operator the finalizer stays
		ctx := context.WithoutCancel(t.Context())
		_ = a.Client.Delete(ctx, group.DeepCopy())
		_ = a.Client.Patch(ctx, group.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	rollout := func() *v1alpha1.RolloutStatus {
		now := &v1alpha1.NodeGroup{}
		if err := a.Client.Get(t.Context(), client.ObjectKeyFromObject(group), now); err != nil {
			t.Fatal(err)
		}
		return now.Status.Rollout
	}
	var want *v1alpha1.RolloutStatus
	a.Eventually("the first wave is over", func() error {
		if want = rollout(); want == nil || want.WaveEndTime == nil {
			return fmt.Errorf("the roll-out is %s", harness.JSON(want))
		}
		return nil
	})
	for attempt, text := range map[string]string{
		"ends the pause between two waves, without the policy": `{"status":{"rollout":{"waveEndTime":"2020-01-01T00:00:00Z"}}}`,
		"has Drover forget the pause, without the policy":      `{"status":{"rollout":null}}`,
		"ends the roll-out, without the policy":                `{"status":{"rollout":{"endTime":"2026-01-01T00:00:00Z"}}}`,
	} {
		attack(t, groupAuthor, attempt, func(t *testing.T) string {
			a.Eventually("the attacker writes the status", func() error {
				return a.as.Status().Patch(t.Context(), group.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
			})
			a.Eventually("Drover has overwritten it", func() error {
				if now := rollout(); !apiequality.Semantic.DeepEqual(now, want) {
					return fmt.Errorf("the roll-out is %s, want %s", harness.JSON(now), harness.JSON(want))
				}
				return nil
			})
			if a.labelled(nodes) != 1 {
				t.Error("the second wave has begun")
			}
			return "Drover knows what it has written, and writes it again"
		})
	}
}

// labelled counts the Nodes that have what the group declares.
func (a *groupAuthors) labelled(nodes []string) (count int) {
	for _, name := range nodes {
		if a.Node(name).Labels["example.com/team"] != "" {
			count++
		}
	}
	return count
}
