package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// patience is how long anything may take.
const patience = 10 * time.Minute

// timeline is what was seen of a node.
type timeline struct {
	jobs               time.Duration
	released, upgraded time.Time
}

// observer ends Jobs as soon as they are there, and notes when what was seen.
type observer struct {
	mu    sync.Mutex
	nodes map[string]*timeline
	order []string
}

// run measures the run: first while it waits, then from its first node to its last.
func (s *stage) run(ctx context.Context, out *results) error {
	return s.With(ctx, func(*harness.Operator) error {
		var err error
		if out.Resting, err = s.rest(ctx); err != nil {
			return err
		}
		return s.upgrade(ctx, out)
	}, "--controllers=upgrade")
}

// upgrade opens the window, and follows the run to its end.
func (s *stage) upgrade(ctx context.Context, out *results) error {
	o := &observer{nodes: map[string]*timeline{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := o.observe(ctx, s.Client); err != nil {
		return err
	}
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	bench.Progress("upgrading %d nodes", s.nodes)
	begun := time.Now()
	open := []byte(`{"spec":{"windows":null}}`)
	if err := s.Client.Patch(ctx, &v1alpha1.MutexRunConfig{ObjectMeta: meta("run")}, client.RawPatch(types.MergePatchType, open)); err != nil {
		return err
	}
	if err := s.await(ctx, func(run *v1alpha1.MutexRunConfig) bool { return run.Status.Phase == v1alpha1.PhaseDone }); err != nil {
		return err
	}
	out.Seconds = time.Since(begun).Seconds()
	if err := o.overhead(s.nodes, begun, out); err != nil {
		return err
	}
	return s.count(ctx, mark, out)
}

// rest counts the writes while the run waits. What belongs to the beginning has to be over first.
func (s *stage) rest(ctx context.Context) (int, error) {
	if err := openshift.Upgrade(ctx, s.Client, version); err != nil {
		return 0, err
	}
	if err := s.await(ctx, func(run *v1alpha1.MutexRunConfig) bool {
		return run.Status.Phase == v1alpha1.PhaseWaiting && int(run.Status.Total) == s.nodes && run.Status.Version == version
	}); err != nil {
		return 0, err
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if count, err := s.writesIn(ctx, 3*time.Second); err != nil || count == 0 {
			bench.Progress("watching the run wait for %s", s.window)
			return s.writesIn(ctx, s.window)
		}
	}
	return 0, errors.New("the operator does not come to rest")
}

// writesIn counts the operator's writes in the time that comes.
func (s *stage) writesIn(ctx context.Context, window time.Duration) (int, error) {
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return 0, err
	}
	if err := bench.Sleep(ctx, window); err != nil {
		return 0, err
	}
	return s.Writes(ctx, mark)
}

func (s *stage) await(ctx context.Context, done func(*v1alpha1.MutexRunConfig) bool) error {
	run := &v1alpha1.MutexRunConfig{}
	err := harness.WaitLonger(ctx, patience, 100*time.Millisecond, func() error {
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "run"}, run); err != nil {
			return err
		}
		if !done(run) {
			return fmt.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
		}
		return nil
	})
	return err
}

// observe begins to watch Jobs and nodes.
func (o *observer) observe(ctx context.Context, c client.WithWatch) error {
	jobs, err := c.Watch(ctx, &batchv1.JobList{}, client.InNamespace(namespace))
	if err != nil {
		return err
	}
	nodes, err := c.Watch(ctx, &corev1.NodeList{})
	if err != nil {
		return err
	}
	go func() {
		defer jobs.Stop()
		for event := range jobs.ResultChan() {
			if job, ok := event.Object.(*batchv1.Job); ok && event.Type == watch.Added {
				go o.finish(ctx, c, job)
			}
		}
	}()
	go func() {
		defer nodes.Stop()
		for event := range nodes.ResultChan() {
			if node, ok := event.Object.(*corev1.Node); ok {
				o.see(node)
			}
		}
	}()
	context.AfterFunc(ctx, func() { jobs.Stop(); nodes.Stop() })
	return nil
}

func (o *observer) of(node string) *timeline {
	if o.nodes[node] == nil {
		o.nodes[node] = &timeline{}
		o.order = append(o.order, node)
	}
	return o.nodes[node]
}

// finish ends a Job, as its controller would.
func (o *observer) finish(ctx context.Context, c client.Client, job *batchv1.Job) {
	seen := time.Now()
	now := metav1.NewTime(seen)
	done := job.DeepCopy()
	done.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		done.Status.Conditions = append(done.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := c.Status().Update(ctx, done); err != nil {
		bench.Progress("ending Job %s: %v", job.Name, err)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of(job.Annotations[plan.AnnotationNode]).jobs += time.Since(seen)
}

// see notes what has become of a node.
func (o *observer) see(node *corev1.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	t, now := o.nodes[node.Name], time.Now()
	if t == nil {
		return
	}
	if t.released.IsZero() && plan.ReleaseOf(node) != nil {
		t.released = now
	}
	if t.upgraded.IsZero() && node.Labels[plan.LabelVersion] == version {
		t.upgraded = now
	}
}

// overhead works out what each node took beyond its Jobs and its upgrade.
func (o *observer) overhead(nodes int, begun time.Time, out *results) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.order) != nodes {
		return fmt.Errorf("%d nodes were seen, not %d", len(o.order), nodes)
	}
	for _, name := range o.order {
		t := o.nodes[name]
		if t.released.IsZero() || t.upgraded.IsZero() {
			return fmt.Errorf("node %s was not seen to be let go and upgraded", name)
		}
		out.Overhead = append(out.Overhead, (t.released.Sub(begun) - t.jobs).Seconds())
		begun = t.upgraded
	}
	return nil
}

func (s *stage) count(ctx context.Context, mark cluster.AuditMark, out *results) error {
	counts, err := s.Counts(ctx, mark)
	if err != nil {
		return err
	}
	out.Kinds = map[string]float64{}
	for key, n := range counts {
		share := float64(n) / float64(s.nodes)
		out.Requests += share
		if key.Write() {
			out.Writes += share
		}
		out.Kinds[fmt.Sprintf("%s %s %s %d", key.Verb, key.Resource, key.Subresource, key.Code)] += share
	}
	return nil
}

// floor sends for each node, one after the other, what Drover cannot do without: the lease, the Jobs, the release, and the lease again.
func (s *stage) floor(ctx context.Context, out *results) error {
	bare, err := s.Bare(ctx)
	if err != nil {
		return err
	}
	for i := range s.nodes {
		begun := time.Now()
		name := fmt.Sprintf("node-%03d", i)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "floor-" + name}}
		if err := bare.Create(ctx, lease); err != nil {
			return err
		}
		for j := range s.rules {
			job := &batchv1.Job{ObjectMeta: meta(fmt.Sprintf("floor-%s-%d", name, j))}
			job.Spec.Template.Spec = corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "check", Image: "example.com/check"}},
			}
			if err := bare.Create(ctx, job); err != nil {
				return err
			}
		}
		patch := []byte(`{"metadata":{"labels":{"floor.example.com/a":null},"annotations":{"floor.example.com/b":"c"}}}`)
		node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		if err := bare.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return err
		}
		if err := bare.Delete(ctx, lease); err != nil {
			return err
		}
		out.Floor = append(out.Floor, time.Since(begun).Seconds())
	}
	return nil
}
