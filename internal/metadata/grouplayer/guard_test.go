package grouplayer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/pages"
)

// TestHasBegun: a taint of the same key with the effect NoSchedule is not enough, since others may have set it.
func TestHasBegun(t *testing.T) {
	announced := []corev1.Taint{{Key: "example.com/batch", Value: "x", Effect: corev1.TaintEffectNoSchedule}}
	for name, c := range map[string]struct {
		taints []corev1.Taint
		holder string
		want   bool
	}{
		"announced, with the lease":      {announced, Holder, true},
		"announced, without a lease":     {announced, "", false},
		"announced, the lease of others": {announced, "another", false},
		"with the lease alone":           {nil, Holder, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Spec: corev1.NodeSpec{Taints: c.taints}}
			r, api := newLayer(t), fake.NewClientBuilder().Build()
			leases := &nodelease.Leases{Client: api, Holder: Holder, Namespace: "leases", Clock: clocktesting.NewFakePassiveClock(r.Clock.Now())}
			if c.holder != "" {
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "leases", Name: nodelease.Name("n0")}}
				lease.Spec.HolderIdentity = &c.holder
				if err := api.Create(t.Context(), lease); err != nil {
					t.Fatal(err)
				}
			}
			r.Guard = &Guard{Leases: leases}
			rc := &reconciliation{Layer: r, Assignment: members.Assignment{Node: node}}
			if begun, err := rc.hasBegun(t.Context(), []string{"example.com/batch:NoExecute"}); begun != c.want || err != nil {
				t.Errorf("begun is %v, error %v", begun, err)
			}
		})
	}
}

// TestAwaitRetry: a process that finds a timeout in the record of a Node releases what its predecessor has not, and waits as long as that says.
func TestAwaitRetry(t *testing.T) {
	for name, c := range map[string]struct {
		retry time.Duration
		waits bool
	}{
		"before the next attempt": {time.Hour, true},
		"at the next attempt":     {0, false},
	} {
		t.Run(name, func(t *testing.T) {
			group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Generation: 1}}
			group.Spec.Metadata = &v1alpha1.Metadata{Taints: []v1alpha1.Taint{{Key: "example.com/batch", Effect: corev1.TaintEffectNoExecute}}}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}
			r := newLayer(t)
			now := time.Unix(r.Clock.Now().Unix(), 0)
			parsed := members.Parse(group)
			record := ownership.Record{
				Source: "g", Generation: 1, Timeout: &ownership.Timeout{Attempts: 1, Retry: now.Add(c.retry).Unix(), Pod: "a/b"},
				Digest: metadataplan.DecideGroup(metadataplan.GroupInput{Node: node, Declaration: parsed.Declaration}).Digest,
			}
			node.Annotations = map[string]string{ownership.AnnotationGroupRecord: record.Format()}
			metrics, err := engine.NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			api := fake.NewClientBuilder().Build()
			leases := &nodelease.Leases{Client: api, Holder: Holder, Namespace: "leases", Clock: clocktesting.NewFakePassiveClock(now)}
			r.Guard = &Guard{Leases: leases, Engine: engine.New(nil, nil, nil, nil, metrics, engine.Settings{})}
			if _, err := leases.Acquire(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			rc := &reconciliation{
				Layer: r, Assignment: members.Assignment{Node: node, Group: parsed}, state: &nodeState{},
				now: now,
			}
			v, err := rc.awaitRetry(t.Context())
			if err != nil || v.waits != c.waits || v.requeue.Delay() != c.retry {
				t.Errorf("verdict %+v, error %v", v, err)
			}
			if holds, err := leases.IsHolder(t.Context(), "n0"); err != nil || holds == c.waits {
				t.Errorf("the lease is held: %v, error %v", holds, err)
			}
		})
	}
}

// nodesOf are the Nodes of one group.
type nodesOf struct{ group, node string }

func (n nodesOf) GroupOf(context.Context, string) (string, error) { return n.group, nil }

func (nodesOf) Machines(context.Context, string, time.Time) (machines disruptionplan.Machines, err error) {
	return machines, nil
}

func (n nodesOf) Members(context.Context, string) ([]*corev1.Node, error) {
	return []*corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: n.node, UID: "uid"}}}, nil
}

// largePods are the Pods of one Node. They tolerate everything, and are so many and so large that they must not be in memory at once.
type largePods struct {
	client.Reader

	intolerant int
	lists      int
}

func (l *largePods) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	of := (&client.ListOptions{}).ApplyOptions(options)
	pods, ok := list.(*corev1.PodList)
	if !ok || of.Limit <= 0 || of.FieldSelector.String() != "spec.nodeName=n0" {
		return fmt.Errorf("list %T of %d, %v", list, of.Limit, of.FieldSelector)
	}
	for i := range int(of.Limit) {
		pod := corev1.Pod{}
		if l.lists*int(of.Limit)+i != l.intolerant {
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}
		pods.Items = append(pods.Items, pod)
	}
	if l.lists++; l.lists < 12 {
		pods.Continue = "next"
	}
	return nil
}

// TestVerify_DaemonSets: the Pods of DaemonSets that Kubernetes deletes are named, and keep no taint from being set.
func TestVerify_DaemonSets(t *testing.T) {
	of := func(name, kind string, change func(*corev1.Pod)) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: "n0"}}
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "owner", Controller: new(true)}}
		if change != nil {
			change(pod)
		}
		return pod
	}
	tolerant := func(pod *corev1.Pod) {
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	finished := func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded }
	alone := of("b", "", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
	for name, c := range map[string]struct {
		pods  []*corev1.Pod
		guard metadataplan.Guard
		lost  string
	}{
		"none":               {nil, metadataplan.GuardClear, ""},
		"all tolerate":       {[]*corev1.Pod{of("a", "DaemonSet", tolerant), of("b", "ReplicaSet", tolerant)}, metadataplan.GuardClear, ""},
		"one has finished":   {[]*corev1.Pod{of("a", "DaemonSet", finished)}, metadataplan.GuardClear, ""},
		"two do not":         {[]*corev1.Pod{of("a", "DaemonSet", nil), of("b", "DaemonSet", nil)}, metadataplan.GuardClear, "2 Pods of DaemonSets"},
		"another has to go":  {[]*corev1.Pod{of("a", "DaemonSet", nil), of("b", "ReplicaSet", nil)}, metadataplan.GuardAnnounced, ""},
		"one without owner ": {[]*corev1.Pod{of("a", "DaemonSet", nil), alone}, metadataplan.GuardAnnounced, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node, reader := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, &podPages{pods: c.pods}
			r := newLayer(t)
			r.Guard = &Guard{Live: pages.NewReader(reader)}
			rc := &reconciliation{Layer: r, Assignment: members.Assignment{Node: node}}
			v, err := rc.verify(t.Context(), []corev1.Taint{{Key: "example.com/batch", Effect: corev1.TaintEffectNoExecute}})
			if err != nil || v.guard != c.guard || !strings.HasPrefix(rc.lost, c.lost) || (rc.lost == "") != (c.lost == "") {
				t.Errorf("verdict %+v, lost %q, error %v", v, rc.lost, err)
			}
			if c.lost != "" && !strings.HasSuffix(rc.lost, "ns/a, ns/b") {
				t.Errorf("lost are %s", rc.lost)
			}
		})
	}
}

// TestAwaitArrivals: an announced taint waits for Pods that the scheduler has bound without having seen it.
func TestAwaitArrivals(t *testing.T) {
	begin := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	rc := &reconciliation{state: &nodeState{}}
	for i, step := range []struct {
		begun bool
		at    time.Duration
		want  time.Duration
	}{
		{false, 0, 0}, {true, time.Second, arrivals}, {true, 3 * time.Second, arrivals - 2*time.Second}, {true, time.Second + arrivals, 0},
		{false, time.Minute, 0}, {true, 2 * time.Minute, arrivals},
	} {
		rc.begun, rc.now = step.begun, begin.Add(step.at)
		if v := rc.awaitArrivals(); v.requeue.Delay() != step.want || (v.guard == metadataplan.GuardAnnounced) != (step.want > 0) {
			t.Errorf("step %d: verdict %+v, want to wait %s", i, v, step.want)
		}
	}
}

// podPages is an API server with some Pods.
type podPages struct {
	client.Reader

	pods []*corev1.Pod
}

func (p *podPages) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	pods, _ := list.(*corev1.PodList)
	for _, pod := range p.pods {
		pods.Items = append(pods.Items, *pod)
	}
	return nil
}

// TestVerify_ManyPods: any tenant can create Pods of a Node, and may create very large ones. They are read in pages, until one has to leave.
func TestVerify_ManyPods(t *testing.T) {
	for name, c := range map[string]struct {
		intolerant, lists int
		guard             metadataplan.Guard
	}{
		"all tolerate":                  {-1, 12, metadataplan.GuardClear},
		"one of the first has to leave": {3, 1, metadataplan.GuardAnnounced},
		"one of the third page has to":  {120, 3, metadataplan.GuardAnnounced},
	} {
		t.Run(name, func(t *testing.T) {
			node, pods := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}}, &largePods{intolerant: c.intolerant}
			r := newLayer(t)
			r.Guard = &Guard{Live: pages.NewReader(pods)}
			rc := &reconciliation{Layer: r, Assignment: members.Assignment{Node: node}}
			v, err := rc.verify(t.Context(), []corev1.Taint{{Key: "example.com/batch", Effect: corev1.TaintEffectNoExecute}})
			if err != nil || v.guard != c.guard || pods.lists != c.lists {
				t.Errorf("verdict %+v after %d pages, error %v", v, pods.lists, err)
			}
		})
	}
}
