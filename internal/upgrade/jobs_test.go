package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// older is a cache that shows an older aim.
type older struct{ client.Reader }

func (o older) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := o.Reader.Get(ctx, key, object, options...)
	if version, ok := object.(*configv1.ClusterVersion); ok {
		version.Spec.DesiredUpdate.Version, version.Status.History[0].Version = "4.17.1", "4.17.1"
	}
	return err
}

// TestCreateJob_CacheShowsOlderVersion: the first list after a restart may show the previous desired version.
func TestCreateJob_CacheShowsOlderVersion(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.Cache = older{f.client}
	f.reconcileTimes(20)
	if len(f.created) > 0 {
		t.Errorf("the Jobs %v were created", f.created)
	}
	f.Cache = f.client
	f.reconcileToRest(v1alpha1.PhaseDone)
	if len(f.created) != 6 {
		t.Errorf("the Jobs %v were created", f.created)
	}
}

// TestCreateJob_NameTaken has another Job with the name of the run's.
func TestCreateJob_NameTaken(t *testing.T) {
	f := newFixture(t, newObjects()...)
	name := plan.JobName("a", plan.JobID{
		Run: "uid-of-run", Version: "4.17.3", Node: "uid-of-n1", Rule: types.NamespacedName{Namespace: "numo", Name: "a"}, Kind: plan.BeforeUpgrade,
	})
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: name}}
	f.must(f.client.Create(t.Context(), foreign))
	f.reconcileTimes(20)
	if run := f.run(); !strings.Contains(run.Status.Message, "not of this run") {
		t.Errorf("the message is %q", run.Status.Message)
	}
	f.must(f.client.Delete(t.Context(), foreign))
	f.reconcileToRest(v1alpha1.PhaseDone)
}

// lagging is a cache whose view of some kinds is old: the watches of several kinds are not ordered among each other.
type lagging struct {
	client.Reader

	nodes *corev1.NodeList
	rules *v1alpha1.MutexRuleList
}

// lag returns the cache as it is now for Nodes, or for MutexRules.
func (f *fixture) lag(nodes, rules bool) *lagging {
	f.t.Helper()
	l := &lagging{Reader: f.client}
	if nodes {
		l.nodes = &corev1.NodeList{}
		f.must(f.client.List(f.t.Context(), l.nodes))
	}
	if rules {
		l.rules = &v1alpha1.MutexRuleList{}
		f.must(f.client.List(f.t.Context(), l.rules))
	}
	return l
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		if l.nodes != nil {
			l.nodes.DeepCopyInto(list)
			return nil
		}
	case *v1alpha1.MutexRuleList:
		if l.rules != nil {
			l.rules.DeepCopyInto(list)
			return nil
		}
	}
	return l.Reader.List(ctx, list, options...)
}

// TestReconcile_NodesUpgradedBeforeResume resumes a run whose nodes have been upgraded, before the cache of Nodes shows that: no MachineConfigPool is
// paused.
func TestReconcile_NodesUpgradedBeforeResume(t *testing.T) {
	f := newFixture(t, newObjects()...)
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	f.advance(6*time.Second, 2*time.Second)
	f.Cache = f.lag(true, false)
	for _, name := range []string{"n1", "n2"} {
		update(f, newNode(name, "infra"), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
	}
	before := f.snapshot()
	f.afterWrite = func() {
		f.expectState(before)
	}
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	f.advance(10*time.Second, 2*time.Second)
	f.Cache = f.client
	f.reconcileToRest(v1alpha1.PhaseIdle)
	if len(f.created) > 0 {
		t.Errorf("the Jobs %v were created", f.created)
	}
}

// TestCreateJob_RuleEdited edits a rule and then deletes the Job that has failed, and the cache shows the deletion first: the Job of the old rule is
// not created again.
func TestCreateJob_RuleEdited(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.fails = func(*batchv1.Job) bool { return true }
	f.reconcileToRest(v1alpha1.PhaseStopped)
	f.fails = nil
	f.Cache = f.lag(false, true)
	rule := &v1alpha1.MutexRule{ObjectMeta: named("a")}
	update(f, rule, func(rule *v1alpha1.MutexRule) {
		rule.Generation = 2
		rule.Spec.JobSpec.Raw = []byte(strings.ReplaceAll(string(rule.Spec.JobSpec.Raw), `"image":"i"`, `"image":"edited"`))
	})
	rule.Status.Conditions[0].ObservedGeneration = 2
	f.must(f.client.Status().Update(t.Context(), rule))
	jobs := &batchv1.JobList{}
	f.must(f.client.List(t.Context(), jobs))
	if len(jobs.Items) != 1 {
		t.Fatalf("there are %d Jobs, want the one that has failed", len(jobs.Items))
	}
	f.must(f.client.Delete(t.Context(), &jobs.Items[0]))
	f.advance(10*time.Second, 2*time.Second)
	f.must(f.client.List(t.Context(), jobs))
	for i := range jobs.Items {
		t.Errorf("Job %s was created with image %s", jobs.Items[i].Name, jobs.Items[i].Spec.Template.Spec.Containers[0].Image)
	}
	f.Cache = f.client
	f.reconcileToRest(v1alpha1.PhaseDone)
}

// validating is an API server that validates the time to live of Jobs.
type validating struct{ client.Client }

func (v validating) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	if job, ok := object.(*batchv1.Job); ok && job.Spec.TTLSecondsAfterFinished != nil && *job.Spec.TTLSecondsAfterFinished < 0 {
		return invalidTimeToLive(job.Name)
	}
	return v.Client.Create(ctx, object, options...)
}

func invalidTimeToLive(job string) error {
	problem := field.Invalid(field.NewPath("spec", "ttlSecondsAfterFinished"), -1, "must not be negative")
	return apierrors.NewInvalid(batchv1.SchemeGroupVersion.WithKind("Job").GroupKind(), job, field.ErrorList{problem})
}

// withTimeToLive sets the time to live of the Jobs that a rule declares.
func withTimeToLive(seconds string) func(*v1alpha1.MutexRule) {
	return func(rule *v1alpha1.MutexRule) {
		rule.Spec.JobSpec.Raw = []byte(strings.Replace(string(rule.Spec.JobSpec.Raw), "{", `{"ttlSecondsAfterFinished":`+seconds+`,`, 1))
	}
}

// TestRule_TimeToLive: what a Job gets only when the run is done is validated before the run begins.
func TestRule_TimeToLive(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.Writer = validating{f.client}
	for seconds, want := range map[string]string{"60": "", "-1": "spec.jobSpec: the API server rejects the Job"} {
		rule := &v1alpha1.MutexRule{ObjectMeta: named("a")}
		update(f, rule, func(rule *v1alpha1.MutexRule) {
			rule.Spec.JobSpec.Raw = []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`)
			withTimeToLive(seconds)(rule)
		})
		problem, err := (&ruleReconciler{f.Reconciler}).validate(t.Context(), rule)
		if f.must(err); !strings.HasPrefix(problem, want) || (problem == "") != (want == "") {
			t.Errorf("%s: %q", seconds, problem)
		}
	}
	if len(f.listJobs()) > 0 {
		t.Errorf("the Jobs %v were created", f.created)
	}
}

// TestDelete_TimeToLiveIsDenied: a Job whose time to live the API server denies does not keep a run that is deleted.
func TestDelete_TimeToLiveIsDenied(t *testing.T) {
	f := newFixture(t, newObjects()...)
	for _, name := range []string{"a", "b"} {
		update(f, &v1alpha1.MutexRule{ObjectMeta: named(name)}, withTimeToLive("-1"))
	}
	f.reconcileUntil(func() bool { return f.nodeStatus("n2").Phase == v1alpha1.NodeRunningJobs })
	f.simulate()
	f.fail["patch Job"] = invalidTimeToLive("a-job")
	f.must(f.client.Delete(t.Context(), f.run()))
	for range 20 {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	}
	err := f.client.Get(t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("the run is still there: %v, %s", err, f.run().Status.Message)
	}
}
