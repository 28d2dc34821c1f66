package machineconfig_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/sandbox/internal/machineconfig"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
)

// A complete update: the masters first, one at a time, then all other Nodes, each through all steps.
func TestUpgrade(t *testing.T) {
	s := newStage(t, "infra")
	s.addNodes([]string{"master", "control-plane"}, "master-0", "master-1")
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.addNodes([]string{"worker", "infra"}, "infra-0")
	s.begin(openshift.Options{})
	s.addPod("plain", "worker-0", nil)
	s.addPod("daemon", "worker-0", func(pod *corev1.Pod) {
		yes := true
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &yes}}
	})
	s.addPod("mirror", "worker-0", func(pod *corev1.Pod) { pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} })
	trace := s.follow()
	before := s.node("worker-0").Annotations[openshift.AnnotationCurrentConfig]
	s.upgrade(to)
	s.reaches(to)
	want := []string{
		"Done uncordon applied there 4.17.2",
		"Done uncordon applied 4.17.2",
		"Working cordoned drain 4.17.2",
		"Working cordoned drain applied 4.17.2",
		"Working cordoned down drain applied 4.17.2",
		"Working cordoned drain applied 4.17.2",
		"Done uncordon applied there 4.17.3",
	}
	for _, name := range []string{"master-0", "worker-0", "worker-1", "infra-0"} {
		s.eventually(name+" was seen through all of it", func() error {
			if got := trace.seen(name); !slices.Equal(got, want) {
				return fmt.Errorf("it went through %q, want %q", got, want)
			}
			return nil
		})
	}
	s.eventually("the end is seen", func() error {
		order := []int{
			trace.first("version 4.17.3 Partial"), trace.first("master-"), max(trace.first("master-0 done"), trace.first("master-1 done")),
			min(trace.first("worker-"), trace.first("infra-")),
		}
		if !slices.IsSorted(order) || order[0] < 0 || trace.count("version 4.17.3 Completed") != 1 {
			return fmt.Errorf("things happened in the order %v: %v", order, trace.order)
		}
		return nil
	})
	if trace.atOnce("master") != 1 || trace.atOnce("infra") != 1 {
		t.Errorf("%d masters and %d infra nodes were updated at once", trace.atOnce("master"), trace.atOnce("infra"))
	}
	if s.hasPod("plain") || !s.hasPod("daemon") || !s.hasPod("mirror") {
		t.Errorf("there are the pods plain %t, daemon %t, mirror %t", s.hasPod("plain"), s.hasPod("daemon"), s.hasPod("mirror"))
	}
	pool := s.pool("worker")
	after := s.node("worker-0").Annotations[openshift.AnnotationCurrentConfig]
	if after == before || pool.Spec.Configuration.Name != after || pool.Status.Configuration.Name != after || pool.Status.MachineCount != 2 {
		t.Errorf("worker-0 runs %s, and the pool has %+v and %+v", after, pool.Spec.Configuration, pool.Status)
	}
	config := &mcfgv1.MachineConfig{}
	s.must(s.client.Get(t.Context(), keyOf(after), config))
	if !strings.HasPrefix(after, "rendered-worker-") || config.Annotations[openshift.VersionKey] != to {
		t.Errorf("%s has the annotations %v", after, config.Annotations)
	}
	var text strings.Builder
	s.must(s.report().Write(&text))
	for _, words := range []string{"4.17.3    Completed", "infra-0", "rendered"} {
		if !strings.Contains(strings.ToLower(text.String()), strings.ToLower(words)) {
			t.Errorf("the report has no %q:\n%s", words, text.String())
		}
	}
}

// Everybody else gets the new configuration while the cluster's update is still under way: an unpaused pool does not wait for Completed.
func TestUpgrade_WorkersStartBeforeCompleted(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0")
	s.begin(openshift.Options{Completion: time.Hour})
	s.upgrade(to)
	s.runs("worker-0", to)
	if report := s.report(); report.State != "Partial" || report.Stage != machineconfig.StageCompletion {
		t.Errorf("then it is %s, %s", report.State, report.Stage)
	}
}

func TestUpgrade_WorkersStartAfterCompleted(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0")
	s.begin(openshift.Options{WorkersAt: openshift.AfterCompleted})
	trace := s.follow()
	s.upgrade(to)
	s.reaches(to)
	s.eventually("worker-0 is seen", func() error {
		if worker, completed := trace.first("worker-0 desired"), trace.first("version 4.17.3 Completed"); worker < completed || completed < 0 {
			return fmt.Errorf("it happened that %v", trace.order)
		}
		return nil
	})
}

func TestUpgrade_OtherVersionsDuringAnUpdate(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"master"}, "master-0", "master-1")
	s.addNodes([]string{"worker"}, "worker-0")
	s.begin(openshift.Options{})
	s.annotate("master-0", openshift.AnnotationDegrade, "disk full")
	s.upgrade(to)
	s.eventually("master-0 fails", func() error { return s.is("master-0", openshift.StateDegraded) })
	s.upgrade(from)
	s.reaches(from)
	if err := s.is("master-0", openshift.StateDone); err != nil {
		t.Errorf("after the way back: %v", err)
	}
	s.annotate("master-0", openshift.AnnotationDegrade, "")
	s.annotate("worker-0", openshift.AnnotationHang, string(openshift.StepDrain))
	s.upgrade(to)
	s.completed(to)
	s.step("worker-0", openshift.StepDrain)
	s.upgrade("4.18.0")
	s.completed("4.18.0")
	// It has begun with 4.17.3, and goes on with that first.
	if got := s.report().find("worker-0"); got.Desired != to {
		t.Errorf("worker-0 is %+v", got)
	}
	trace := s.follow()
	s.annotate("worker-0", openshift.AnnotationHang, "")
	s.reaches("4.18.0")
	s.eventually("both are seen", func() error {
		if got := trace.count("worker-0 done"); got != 2 {
			return fmt.Errorf("worker-0 went through %d configurations", got)
		}
		return nil
	})
}

// A new Node has what its pool has, without an update.
func TestUpgrade_NewNodes(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0")
	s.begin(openshift.Options{})
	s.pause("worker", true)
	s.upgrade(to)
	s.completed(to)
	s.addNodes([]string{"worker"}, "worker-1")
	s.runs("worker-1", from)
	s.addNodes(nil, "unassigned")
	s.pause("worker", false)
	s.reaches(to)
	s.runs("worker-1", to)
	if state, there := s.node("unassigned").Annotations[openshift.AnnotationState]; there {
		t.Errorf("a node of no pool is %s", state)
	}
}

// A MachineConfig that a person writes changes what its pools run, without another version.
func TestPool_NewMachineConfig(t *testing.T) {
	s := newStage(t, "infra")
	s.addNodes([]string{"worker"}, "worker-0")
	s.addNodes([]string{"infra"}, "infra-0")
	s.begin(openshift.Options{})
	before := s.node("infra-0").Annotations[openshift.AnnotationCurrentConfig]
	trace := s.follow()
	s.must(s.client.Create(t.Context(), openshift.NewConfig("99-infra", "infra")))
	s.eventually("infra-0 runs it", func() error {
		if got := s.node("infra-0").Annotations[openshift.AnnotationCurrentConfig]; got == before {
			return fmt.Errorf("it runs %s", got)
		}
		return nil
	})
	s.runs("infra-0", from)
	if trace.count("worker-0") != 0 {
		t.Errorf("it happened that %v", trace.order)
	}
	var sources []string
	for _, source := range s.pool("infra").Spec.Configuration.Source {
		sources = append(sources, source.Name)
	}
	if !slices.Equal(sources, []string{"00-worker", "99-infra"}) {
		t.Errorf("it is made of %v", sources)
	}
}

// A Node's update takes few requests, and Nodes do not wait for one another.
func TestUpgrade_ManyNodes(t *testing.T) {
	const count = 40
	s := newStage(t)
	var names []string
	for i := range count {
		names = append(names, fmt.Sprintf("worker-%02d", i))
	}
	s.addNodes([]string{"worker"}, names...)
	s.patch(&mcfgv1.MachineConfigPool{}, "worker", `{"spec":{"maxUnavailable":"100%%"}}`)
	s.begin(openshift.Options{})
	mark, err := env.Audit().Sync(t.Context())
	s.must(err)
	begin := time.Now()
	s.upgrade(to)
	s.reaches(to)
	took := time.Since(begin)
	_, err = env.Audit().Sync(t.Context())
	s.must(err)
	counts, err := env.Audit().Counts(mark, func(e *cluster.AuditEvent) bool { return e.User == cluster.MachineConfigUser && e.Write() })
	s.must(err)
	nodes, all := 0, 0
	for key, number := range counts {
		all += number
		if key.Resource == "nodes" {
			nodes += number
		}
	}
	t.Logf("%d nodes in %s (%s each), with %d writes of nodes and %d others", count, took.Round(time.Millisecond),
		(took / count).Round(time.Millisecond/10), nodes, all-nodes)
	// Sent, cordoned, down, up, done; and a few that kwok was faster than.
	if most := count*5 + count/2; nodes > most {
		t.Errorf("%d writes of %d nodes, want at most %d: %v", nodes, count, most, counts)
	}
}

// At rest the simulator writes nothing, not even right after it has started.
func TestSimulator_WritesNothingAtRest(t *testing.T) {
	s := newStage(t, "infra")
	s.addNodes([]string{"master"}, "master-0")
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.begin(openshift.Options{})
	s.upgrade(to)
	s.reaches(to)
	s.end()
	mark, err := env.Audit().Sync(t.Context())
	s.must(err)
	started := make(chan struct{})
	s.play(openshift.Options{Started: func() { close(started) }})
	<-started
	// What comes of this proves that all that went before has been worked on.
	s.label("worker-1", "node-role.kubernetes.io/infra", true)
	s.eventually("worker-1 has moved", func() error {
		if pool := s.pool("infra"); pool.Status.ReadyMachineCount != 1 {
			return fmt.Errorf("the pool has %+v", pool.Status)
		}
		return nil
	})
	_, err = env.Audit().Sync(t.Context())
	s.must(err)
	events, err := env.Audit().Since(mark)
	s.must(err)
	for _, event := range events {
		touched := event.Name == "worker-1" || event.Name == "infra" || event.Name == "worker"
		if event.User == cluster.MachineConfigUser && event.Write() && !touched {
			t.Errorf("it wrote %s %s %s %s", event.Verb, event.Resource, event.Subresource, event.Name)
		}
	}
}
