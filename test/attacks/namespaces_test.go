package attacks

import (
	"fmt"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// formerAdministrator had the right to patch MachineConfigPools when their run was made, or the policy was not there yet.
const formerAdministrator = "author of a run that is older than the policy"

// race is two runs for one MachineConfigPool on a cluster whose control plane is being upgraded: one of the tenant's namespace, and the
// administrator's.
type race struct {
	*harness.World
	tenant, administrator, pool, canary string
}

// newRace makes one whose names begin with prefix: a namespace of another test may still be ending.
func newRace(t *testing.T, prefix string) *race {
	t.Helper()
	if err := env.InstallOpenShift(t.Context(), cluster.OpenShiftOptions{Version: "4.17.0"}); err != nil {
		t.Fatal(err)
	}
	r := &race{
		World:  harness.NewWorld(t, env),
		tenant: prefix + "-tenant", administrator: prefix + "-administrator", pool: prefix + "-pool", canary: prefix + "-canary",
	}
	for _, name := range []string{r.tenant, r.administrator} {
		r.CreateWithCleanup(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	for _, name := range []string{r.pool, r.canary} {
		r.CreateWithCleanup(openshift.NewPool(name))
	}
	r.CreateWithCleanup(builder.Node(prefix+"-node", builder.WithNodeLabels(map[string]string{
		openshift.NodeRoleLabel("worker"): "", openshift.NodeRoleLabel(r.pool): "", openshift.VersionKey: "4.17.0",
	})))
	if err := openshift.Upgrade(t.Context(), r.Client, "4.17.1"); err != nil {
		t.Fatal(err)
	}
	return r
}

// declare makes rule, target and run in a namespace, as an administrator.
func (r *race) declare(namespace string) {
	r.Helper()
	spec := []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"sandbox.invalid/check"}]}}}`)
	target, run := newTarget(namespace, "target"), newRun(namespace, "run", "")
	target.Spec.MachineConfigPools, run.Spec.Canary.Name = []string{r.pool}, r.canary
	r.CreateWithCleanup(target)
	r.CreateWithCleanup(&v1alpha1.MutexRule{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "rule"}, Spec: v1alpha1.MutexRuleSpec{
		JobName: "job", JobNamespace: namespace, JobSpec: runtime.RawExtension{Raw: spec}, Type: v1alpha1.RuleKubernetes,
	}})
	r.CreateWithCleanup(run)
}

// claimed waits until the pool is paused for a run of a namespace.
func (r *race) claimed(namespace string) {
	r.Helper()
	r.Eventually("the pool is paused for the run of "+namespace, func() error {
		pool := &mcfgv1.MachineConfigPool{}
		if err := r.Client.Get(r.Context(), client.ObjectKey{Name: r.pool}, pool); err != nil {
			return err
		}
		claim := pool.Annotations["upgrade.drover.dev/claim"]
		if !pool.Spec.Paused || !strings.Contains(claim, namespace) {
			return fmt.Errorf("paused: %v, claim: %s", pool.Spec.Paused, claim)
		}
		return nil
	})
}

// run reads the run of a namespace.
func (r *race) run(namespace string) *v1alpha1.MutexRunConfig {
	r.Helper()
	run := &v1alpha1.MutexRunConfig{}
	if err := r.Client.Get(r.Context(), client.ObjectKey{Namespace: namespace, Name: "run"}, run); err != nil {
		r.Fatal(err)
	}
	return run
}

// TestTenant_RunOlderThanThePolicy is about what admission cannot know: a run whose author may not pause MachineConfigPools, or may do so no more.
func TestTenant_RunOlderThanThePolicy(t *testing.T) {
	r := newRace(t, "older-run")
	r.declare(r.tenant)
	operator := harness.Start(t, env, harness.Options{})
	r.claimed(r.tenant)
	r.declare(r.administrator)
	r.Eventually("the administrator's run waits for the tenant's", func() error {
		if run := r.run(r.administrator); run.Status.Phase != v1alpha1.PhaseClaimed {
			return fmt.Errorf("it is %s: %s", run.Status.Phase, run.Status.Message)
		}
		return nil
	})
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"drover.dev/paused":""}}}`))
	if err := r.Client.Patch(t.Context(), r.run(r.tenant), patch); err != nil {
		t.Fatal(err)
	}
	operator = harness.Start(t, env, harness.Options{Args: []string{"--upgrade-namespaces=" + r.administrator}})
	attack(t, formerAdministrator, "has claimed a MachineConfigPool, and keeps it by pausing the run", func(*testing.T) string {
		r.claimed(r.administrator)
		r.Eventually("the tenant's run says why it has no effect", func() error {
			run := r.run(r.tenant)
			if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, "upgrade.namespaces") || len(run.Finalizers) > 0 {
				return fmt.Errorf("it is %s: %s, with the finalizers %v", run.Status.Phase, run.Status.Message, run.Finalizers)
			}
			return nil
		})
		return r.run(r.tenant).Status.Message
	})
	attack(t, formerAdministrator, "declares the run before the administrator does", func(t *testing.T) string {
		for _, namespace := range []string{r.tenant, r.administrator} {
			run := r.run(namespace)
			if err := r.Client.Delete(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			r.Eventually("the run is gone", func() error {
				if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(run), &v1alpha1.MutexRunConfig{}); !apierrors.IsNotFound(err) {
					return fmt.Errorf("it is there: %w", err)
				}
				return nil
			})
		}
		for _, namespace := range []string{r.tenant, r.administrator} {
			run := newRun(namespace, "run", "")
			run.Spec.Canary.Name = r.canary
			r.CreateWithCleanup(run)
		}
		r.claimed(r.administrator)
		return r.run(r.tenant).Status.Message
	})
	if err := operator.Stop(); err != nil {
		t.Error(err)
	}
}
