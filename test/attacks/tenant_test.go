package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

const (
	tenant = "tenant with edit in a namespace"
	// edit is what kube-controller-manager, which these tests do without, puts into the ClusterRole edit.
	edit = "system:aggregate-to-edit"
	// mutexEdit is the ClusterRole that the tenant has in addition to edit.
	mutexEdit = "attacks-mutex-edit"
)

// newTenant returns a client that may do in its namespace what the ClusterRole edit may, and everything with the kinds of the
// gate of upgrades. The other namespace is not the tenant's.
func newTenant(t *testing.T, w *harness.World) (asTenant client.Client, own, other string) {
	t.Helper()
	own = strings.ReplaceAll(strings.ToLower(t.Name()), "_", "-")
	other = own + "-other"
	for _, name := range []string{own, other} {
		w.CreateWithCleanup(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: mutexEdit}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"},
	}}}
	w.CreateWithCleanup(role)
	for _, name := range []string{edit, role.Name} {
		grant(w, own, name)
	}
	config, err := env.As("tenant")
	if err != nil {
		t.Fatal(err)
	}
	return harness.ClientFor(t, config), own, other
}

// grant binds a ClusterRole in a namespace to the tenant.
func grant(w *harness.World, namespace, role string) {
	w.CreateWithCleanup(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "attacks-" + strings.ReplaceAll(role, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
	})
}

func newRun(namespace, name, ruleNamespace string) *v1alpha1.MutexRunConfig {
	return &v1alpha1.MutexRunConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.MutexRunConfigSpec{
			Canary:     v1alpha1.Canary{Name: "canary"},
			MutexRules: []v1alpha1.Reference{{Name: "rule", Namespace: ruleNamespace}}, MutexTargets: []v1alpha1.Reference{{Name: "target"}},
		},
	}
}

func newTarget(namespace, name string) *v1alpha1.MutexTarget {
	return &v1alpha1.MutexTarget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"worker"}},
	}
}

func TestTenant_MachineConfigPools(t *testing.T) {
	w := harness.NewWorld(t, env)
	asTenant, own, _ := newTenant(t, w)
	w.Eventually("the policy is in force", func() error {
		if err := asTenant.Create(t.Context(), newTarget(own, "probe"), client.DryRunAll); err == nil {
			return errors.New("the tenant may create MutexTargets")
		}
		return nil
	})
	attack(t, tenant, "declares a run, which pauses MachineConfigPools", func(t *testing.T) string {
		return denied(t, asTenant.Create(t.Context(), newRun(own, "run", "")))
	})
	attack(t, tenant, "declares which MachineConfigPools are gated", func(t *testing.T) string {
		return denied(t, asTenant.Create(t.Context(), newTarget(own, "target")))
	})
	// An administrator's run in the tenant's namespace is not the tenant's to change, but may go.
	run := newRun(own, "administrators", "")
	if err := w.Client.Create(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	attack(t, tenant, "changes an administrator's run", func(t *testing.T) string {
		return denied(t, asTenant.Patch(t.Context(), run.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"suspend":true}}`))))
	})
	tamperWithRun(t, w, asTenant, run)
	if err := asTenant.Delete(t.Context(), run); err != nil {
		t.Error(err)
	}
}

// tamperWithRun tries what may be written of an administrator's run apart from its spec.
func tamperWithRun(t *testing.T, w *harness.World, asTenant client.Client, run *v1alpha1.MutexRunConfig) {
	change := func(text string) error {
		return asTenant.Patch(t.Context(), run.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
	}
	attack(t, tenant, "pauses an administrator's run, so that MachineConfigPools stay as they are", func(t *testing.T) string {
		return denied(t, change(`{"metadata":{"annotations":{"drover.dev/paused":""}}}`))
	})
	for attempt, text := range map[string]string{
		"keeps an administrator's run, and what it has reserved, by a finalizer": `{"metadata":{"finalizers":["example.com/mine"]}}`,
		"has the garbage collector delete an administrator's run":                goneOwner,
	} {
		attack(t, tenant, attempt, func(t *testing.T) string { return denied(t, change(text)) })
	}
	finalizer := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"finalizers":[%q]}}`, v1alpha1.Finalizer))
	if err := w.Client.Patch(t.Context(), run.DeepCopy(), finalizer); err != nil {
		t.Fatal(err)
	}
	attack(t, tenant, "takes the finalizer off an administrator's run, so that nothing is restored", func(t *testing.T) string {
		return denied(t, change(`{"metadata":{"finalizers":null}}`))
	})
	attack(t, tenant, "writes what Drover has found out", func(t *testing.T) string {
		settled := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Done","settled":"2100-01-01T00:00:00Z"}}`))
		return denied(t, asTenant.Status().Patch(t.Context(), run.DeepCopy(), settled))
	})
	if err := change(`{"metadata":{"labels":{"example.com/mine":"yes"}}}`); err != nil {
		t.Error("the tenant may not label a run of their namespace:", err)
	}
	free := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := w.Client.Patch(t.Context(), run.DeepCopy(), free); err != nil {
		t.Fatal(err)
	}
}

func TestTenant_RulesOfOtherNamespaces(t *testing.T) {
	w := harness.NewWorld(t, env)
	asTenant, own, other := newTenant(t, w)
	pools := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-pools"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"machineconfiguration.openshift.io"}, Resources: []string{"machineconfigpools"}, Verbs: []string{"patch"},
	}}}
	w.CreateWithCleanup(pools)
	w.CreateWithCleanup(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "attacks-pools"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: pools.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "tenant"}},
	})
	may := func(run *v1alpha1.MutexRunConfig) func() error {
		return func() error { return asTenant.Create(t.Context(), run, client.DryRunAll) }
	}
	w.Eventually("who may patch MachineConfigPools may declare a run", may(newRun(own, "run", "")))
	attack(t, tenant, "starts a rule of another namespace", func(t *testing.T) string {
		return denied(t, asTenant.Create(t.Context(), newRun(own, "run", other)))
	})
	attack(t, tenant, "starts rules of two other namespaces", func(t *testing.T) string {
		run := newRun(own, "run", other)
		run.Spec.MutexRules = append(run.Spec.MutexRules, v1alpha1.Reference{Name: "rule", Namespace: "default"})
		return denied(t, asTenant.Create(t.Context(), run))
	})
	attack(t, tenant, "names a target of another namespace", func(t *testing.T) string {
		run := newRun(own, "run", "")
		run.Spec.MutexTargets[0].Namespace = other
		return denied(t, asTenant.Create(t.Context(), run))
	})
	for _, role := range []string{edit, mutexEdit} {
		grant(w, other, role)
	}
	w.Eventually("who has the rights there may name a rule of another namespace", may(newRun(own, "run", other)))
}

func TestTenant_ForgedJobs(t *testing.T) {
	w := harness.NewWorld(t, env)
	asTenant, own, _ := newTenant(t, w)
	labels := map[string]string{"upgrade.drover.dev/run": "a-run", "upgrade.drover.dev/kind": "Before"}
	newJob := func(name string, labels map[string]string) *batchv1.Job {
		return &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: name, Labels: labels},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "job", Image: "example.com/job"}},
			}}},
		}
	}
	w.Eventually("the policy is in force", func() error {
		if err := asTenant.Create(t.Context(), newJob("probe", labels), client.DryRunAll); err == nil {
			return errors.New("the tenant may forge Jobs")
		}
		return nil
	})
	attack(t, tenant, "forges the Job of a rule", func(t *testing.T) string {
		return denied(t, asTenant.Create(t.Context(), newJob("forged", labels)))
	})
	plain := newJob("plain", map[string]string{"example.com/mine": "yes"})
	if err := asTenant.Create(t.Context(), plain); err != nil {
		t.Fatal(err)
	}
	attack(t, tenant, "makes a Job that of a rule", func(t *testing.T) string {
		return denied(t, asTenant.Patch(t.Context(), plain.DeepCopy(), patchOf(t, map[string]any{"metadata": map[string]any{"labels": labels}})))
	})
	attack(t, tenant, "writes the annotations of a rule's Job", func(t *testing.T) string {
		annotations := map[string]string{"upgrade.drover.dev/node": "node"}
		return denied(t, asTenant.Patch(t.Context(), plain.DeepCopy(), patchOf(t, map[string]any{"metadata": map[string]any{"annotations": annotations}})))
	})
	config, err := env.AsServiceAccount(t.Context(), harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		t.Fatal(err)
	}
	drovers := newJob("drovers", labels)
	if err := harness.ClientFor(t, config).Create(t.Context(), drovers); err != nil {
		t.Fatal("Drover may not create its Jobs:", err)
	}
	attack(t, tenant, "takes the labels off Drover's Job", func(t *testing.T) string {
		none := map[string]any{"metadata": map[string]any{"labels": map[string]any{"upgrade.drover.dev/run": nil}}}
		return denied(t, asTenant.Patch(t.Context(), drovers.DeepCopy(), patchOf(t, none)))
	})
	mine := map[string]any{"metadata": map[string]any{"labels": map[string]any{"example.com/mine": "yes"}}}
	if err := asTenant.Patch(t.Context(), drovers.DeepCopy(), patchOf(t, mine)); err != nil {
		t.Error("the tenant may not label a Job of their namespace:", err)
	}
	for _, job := range []*batchv1.Job{plain, drovers} {
		if err := w.Client.Delete(context.WithoutCancel(t.Context()), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Error(err)
		}
	}
}

// patchOf renders a merge patch.
func patchOf(t *testing.T, changes map[string]any) client.Patch {
	t.Helper()
	text, err := json.Marshal(changes)
	if err != nil {
		t.Fatal(err)
	}
	return client.RawPatch(types.MergePatchType, text)
}
