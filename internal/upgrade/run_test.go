package upgrade

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// points picks writes at which something is to happen; DROVER_CRASH_PLANS=all is every one.
func points(t *testing.T, writes int) []int {
	t.Helper()
	all := make([]int, writes)
	for i := range all {
		all[i] = i + 1
	}
	if os.Getenv("DROVER_CRASH_PLANS") == "all" {
		return all
	}
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("DROVER_TEST_SEED: %v", err)
		}
	}
	t.Logf("DROVER_TEST_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 0)) // #nosec G404 -- picks the points to try
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all[:3]
}

// TestCrashes ends the process before and after writes of a whole run, once. Every Job is made exactly once, and everything is given
// back.
func TestCrashes(t *testing.T) {
	undisturbed := newStage(t, cast()...)
	before := undisturbed.state()
	undisturbed.rest(v1alpha1.PhaseDone)
	if now := undisturbed.state(); now != before {
		t.Fatalf("there is\n%s\nbefore there was\n%s", now, before)
	}
	if len(undisturbed.made) != 6 {
		t.Fatalf("the Jobs %v were made", undisturbed.made)
	}
	t.Logf("%d writes undisturbed", undisturbed.writes)
	for _, crash := range points(t, undisturbed.writes) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write-%d-after-%t", crash, after), func(t *testing.T) {
				s := newStage(t, cast()...)
				s.crash, s.after = crash, after
				s.rest(v1alpha1.PhaseDone)
				if now := s.state(); now != before {
					t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
				}
				if len(s.made) != 6 {
					t.Errorf("the Jobs %v were made", s.made)
				}
				for name, count := range s.made {
					if count != 1 {
						t.Errorf("Job %s was made %d times", name, count)
					}
				}
			})
		}
	}
}

// TestGivenBackAtEachStep stops a run after some of its writes, in each way: everything is given back.
func TestGivenBackAtEachStep(t *testing.T) {
	probe := newStage(t, cast()...)
	before := probe.state()
	probe.rest(v1alpha1.PhaseDone)
	for name, stop := range map[string]func(*v1alpha1.MutexRunConfig){
		"suspend": func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true },
		"abort":   func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true },
		"delete":  nil,
	} {
		for _, at := range points(t, probe.writes-1) {
			s := newStage(t, cast()...)
			for range 100 {
				if s.writes >= at {
					break
				}
				s.must(s.pass())
				s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
				s.play()
			}
			run := s.run()
			if stop != nil {
				edit(s, run, stop)
			} else {
				s.must(s.client.Delete(t.Context(), run))
			}
			for range 30 {
				s.must(s.pass())
				s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
			}
			if now := s.state(); now != before {
				t.Fatalf("%s after %d writes: there is\n%s\nbefore there was\n%s", name, at, now, before)
			}
			if name == "suspend" {
				edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
				// Where nothing was left to do it stands idle.
				s.rest(v1alpha1.PhaseDone, v1alpha1.PhaseIdle)
				for job, count := range s.made {
					if count != 1 {
						t.Fatalf("after %d writes: Job %s was made %d times", at, job, count)
					}
				}
			}
		}
	}
}

// TestRestore_HostileWindows ends runs whose windows are older than the schema that refuses them.
func TestRestore_HostileWindows(t *testing.T) {
	for _, schedule := range []string{"TZ=UTC", "CRON_TZ=UTC", "@every 1h", ""} {
		for name, end := range map[string]func(*stage){
			"suspend": func(s *stage) { edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true }) },
			"abort":   func(s *stage) { edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true }) },
			"delete":  func(s *stage) { s.must(s.client.Delete(t.Context(), s.run())) },
		} {
			t.Run(name+" with "+schedule, func(t *testing.T) {
				s := newStage(t, cast()...)
				before := s.state()
				advance := func(passes int) {
					for range passes {
						s.must(s.pass())
						s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
					}
				}
				advance(6)
				if s.state() == before {
					t.Fatal("the run has changed nothing yet")
				}
				edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
					run.Spec.Windows = []v1alpha1.Window{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}
				})
				advance(1)
				if run := s.run(); run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, "windows[0]") {
					t.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
				}
				end(s)
				advance(15)
				if now := s.state(); now != before {
					t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
				}
			})
		}
	}
}

// inOnePool fails when a node is in several custom pools, or when another number than that is in one.
func (s *stage) inOnePool(want int) {
	s.t.Helper()
	pools := &mcfgv1.MachineConfigPoolList{}
	s.must(s.client.List(s.t.Context(), pools))
	nodes := &corev1.NodeList{}
	s.must(s.client.List(s.t.Context(), nodes))
	members := map[string][]string{}
	for i := range nodes.Items {
		for j := range pools.Items {
			p, name := &pools.Items[j], nodes.Items[i].Name
			selector, err := metav1.LabelSelectorAsSelector(p.Spec.NodeSelector)
			if s.must(err); p.Name != "worker" && selector.Matches(labels.Set(nodes.Items[i].Labels)) {
				if members[name] = append(members[name], p.Name); len(members[name]) > 1 {
					s.t.Errorf("node %s is in the pools %v", name, members[name])
				}
			}
		}
	}
	if len(members) != want {
		s.t.Errorf("the nodes %v are in a pool of theirs", members)
	}
}

// A node is in one pool at each moment, over the whole run and its end.
func TestANodeIsInOnePoolAtEachMoment(t *testing.T) {
	s := newStage(t, cast()...)
	s.each = func() { s.inOnePool(2) }
	for range 200 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		if s.run().Status.Phase == v1alpha1.PhaseDone {
			return
		}
		s.play()
	}
	t.Fatal("the run is not done")
}

// What the API server refuses is told, and tried again.
func TestPolicy_Denials(t *testing.T) {
	denied := apierrors.NewForbidden(corev1.Resource("any"), "any", errors.New("no"))
	for what, kind := range map[string]string{
		"patch MachineConfigPool": ConditionPools, "patch Node": ConditionApplied, "create Job": "",
	} {
		s := newStage(t, cast()...)
		s.fail[what] = denied
		for range 20 {
			s.must(s.pass())
			s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		}
		run := s.run()
		if !strings.Contains(run.Status.Message, "forbidden") {
			t.Errorf("%s: it says %q", what, run.Status.Message)
		}
		for _, condition := range run.Status.Conditions {
			if condition.Type == kind && condition.Status != metav1.ConditionFalse {
				t.Errorf("%s: %s is %s", what, kind, condition.Status)
			}
		}
		delete(s.fail, what)
		s.rest(v1alpha1.PhaseDone)
	}
}

// A Job of somebody else's has the name.
func TestAForeignJobIsNotTheRuns(t *testing.T) {
	s := newStage(t, cast()...)
	name := plan.JobName("a", plan.JobID{
		Run: "uid-of-run", Version: "4.17.3", Node: "uid-of-n1", Rule: types.NamespacedName{Namespace: "numo", Name: "a"}, Kind: plan.BeforeUpgrade,
	})
	foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: name}}
	s.must(s.client.Create(t.Context(), foreign))
	for range 20 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if run := s.run(); !strings.Contains(run.Status.Message, "not of this run") {
		t.Errorf("it says %q", run.Status.Message)
	}
	s.must(s.client.Delete(t.Context(), foreign))
	s.rest(v1alpha1.PhaseDone)
}

// Claims: one of a run that is there is waited for, one of a run that is gone is taken over with what it remembers.
func TestClaims(t *testing.T) {
	objects := cast()
	other := &v1alpha1.MutexRunConfig{ObjectMeta: named("other")}
	before := newStage(t, objects...).state()
	for _, object := range objects {
		if p, ok := object.(*mcfgv1.MachineConfigPool); ok && p.Name == "infra" {
			claim := plan.Take(p, types.NamespacedName{Namespace: "numo", Name: "other"}, other.UID).With([]string{plan.LabelPrefix + "old.numo"})
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, plan.AnnotationClaim, claim.Text())
			p.Spec.NodeSelector, p.Spec.Paused = claim.Held().NodeSelector, true
		}
	}
	s := newStage(t, append(objects, other)...)
	for range 5 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if run := s.run(); run.Status.Phase != v1alpha1.PhaseClaimed || !strings.Contains(run.Status.Message, "numo/other") {
		t.Errorf("it is %s: %s", run.Status.Phase, run.Status.Message)
	}
	s.must(s.client.Delete(t.Context(), other))
	s.rest(v1alpha1.PhaseDone)
	if now := s.state(); now != before {
		t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
	}
	edit(s, pool("infra", nil), func(p *mcfgv1.MachineConfigPool) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, plan.AnnotationClaim, "?")
	})
	s.must(s.pass())
	if run := s.run(); run.Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("with a claim that cannot be read it is %s", run.Status.Phase)
	}
}

// Somebody else takes the lease of a node in the middle: nothing more is done about it until it is free.
func TestALeaseThatIsLost(t *testing.T) {
	s := newStage(t, cast()...)
	for range 100 {
		if len(s.made) > 0 {
			break
		}
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	ours := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: s.clock}
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "somebody", Clock: s.clock}
	s.must(ours.Release(t.Context(), "n1"))
	_, err := other.Acquire(t.Context(), node("n1", "infra"))
	s.must(err)
	s.play()
	count := len(s.made)
	for range 5 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		s.play()
	}
	if len(s.made) != count {
		t.Errorf("the Jobs %v were made", s.made)
	}
	s.must(other.Release(t.Context(), "n1"))
	s.rest(v1alpha1.PhaseDone)
}

// A run that would do harm, or of which too little is known, changes nothing and says so.
func TestRunsThatWouldDoHarm(t *testing.T) {
	for name, c := range map[string]struct {
		change func(objects []client.Object)
		text   string
	}{
		"the version of no node is known": {func(objects []client.Object) {
			for _, object := range objects {
				delete(object.GetLabels(), plan.LabelVersion)
			}
		}, "the version of 2 nodes is not known"},
		"the control plane waits for a target": {func(objects []client.Object) {
			for _, object := range objects {
				if object.GetName() == "infra" {
					object.SetLabels(map[string]string{"operator.machineconfiguration.openshift.io/required-for-upgrade": ""})
				}
			}
		}, "cannot wait for it"},
	} {
		objects := cast()
		c.change(objects)
		s := newStage(t, objects...)
		before := s.state()
		for range 3 {
			s.must(s.pass())
			s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		}
		run := s.run()
		if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, c.text) {
			t.Errorf("%s: it is %s: %s", name, run.Status.Phase, run.Status.Message)
		}
		if now := s.state(); now != before {
			t.Errorf("%s: there is\n%s\nbefore there was\n%s", name, now, before)
		}
	}
}

// The namespace of the Jobs goes in the middle, and the target before its run.
func TestWhatGoesInTheMiddle(t *testing.T) {
	s := newStage(t, cast()...)
	before := s.state()
	s.fail["create Job"] = apierrors.NewNotFound(corev1.Resource("namespaces"), "numo")
	for range 20 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if run := s.run(); !strings.Contains(run.Status.Message, "not found") {
		t.Errorf("it says %q", run.Status.Message)
	}
	delete(s.fail, "create Job")
	for range 100 {
		if n := node("n1", "infra"); s.client.Get(t.Context(), client.ObjectKeyFromObject(n), n) == nil && plan.ReleaseOf(n) != nil {
			break
		}
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		s.play()
	}
	s.must(s.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	s.must(s.pass())
	if run := s.run(); run.Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("without its target it is %s", run.Status.Phase)
	}
	s.must(s.client.Delete(t.Context(), s.run()))
	for range 30 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if now := s.state(); now != before {
		t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
	}
}

// older is a cache that shows an older aim.
type older struct{ client.Reader }

func (o older) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	err := o.Reader.Get(ctx, key, object, options...)
	if version, ok := object.(*configv1.ClusterVersion); ok {
		version.Spec.DesiredUpdate.Version, version.Status.History[0].Version = "4.17.1", "4.17.1"
	}
	return err
}

// The first list after a restart may show what was aimed at before: no Job is made for it.
func TestNoJobForAnOlderAim(t *testing.T) {
	s := newStage(t, cast()...)
	s.Cache = older{s.client}
	for range 20 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if len(s.made) > 0 {
		t.Errorf("the Jobs %v were made", s.made)
	}
	s.Cache = s.client
	s.rest(v1alpha1.PhaseDone)
	if len(s.made) != 6 {
		t.Errorf("the Jobs %v were made", s.made)
	}
}
