package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// What a gated upgrade is made of.
const (
	gateNamespace = "gate"
	gatedPool     = "gated"
	canaryPool    = "canary"
	newVersion    = "4.17.1"
	rules         = 2
)

// upgradeBench is a control plane with a simulated OpenShift.
type upgradeBench struct {
	*stage

	size int
}

// upgrades measures a gated upgrade of nodes whose Jobs end at once.
func upgrades(flags *flag.FlagSet) func(context.Context, *bench) error {
	u := &upgradeBench{}
	flags.IntVar(&u.size, "nodes", 200, "nodes that are upgraded")
	return func(ctx context.Context, b *bench) error {
		return b.onStage(ctx, cluster.Options{}, func(s *stage) error {
			u.stage = s
			return inOrder(ctx, []step{
				{fmt.Sprintf("%d nodes, and a run that waits", u.size), u.build},
				{"the upgrade", u.measureRun},
				{"a bare client", u.bareClient},
			})
		})
	}
}

func inGate(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: gateNamespace, Name: name}
}

// build installs OpenShift's kinds, and makes nodes, pools, rules and a run that waits for its window.
func (u *upgradeBench) build(ctx context.Context) error {
	if err := u.cluster.InstallOpenShift(ctx, cluster.OpenShiftOptions{Version: "4.17.0", CustomPools: []string{gatedPool}}); err != nil {
		return err
	}
	objects := []client.Object{
		harness.NewCanary(canaryPool, "isCanary"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: gateNamespace}},
		&v1alpha1.MutexTarget{ObjectMeta: inGate(gatedPool), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{gatedPool}}},
	}
	run := &v1alpha1.MutexRunConfig{ObjectMeta: inGate("run"), Spec: v1alpha1.MutexRunConfigSpec{
		Canary: v1alpha1.Canary{Name: canaryPool}, MutexTargets: []v1alpha1.Reference{{Name: gatedPool}},
		// On the 29th of February.
		Windows: []v1alpha1.Window{{Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: time.Minute}}},
	}}
	for i := range rules {
		rule := &v1alpha1.MutexRule{ObjectMeta: inGate(fmt.Sprintf("rule%d", i))}
		rule.Spec.JobName, rule.Spec.JobNamespace = rule.Name, gateNamespace
		rule.Spec.JobSpec.Raw = []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"check","image":"example.com/check"}]}}}`)
		objects = append(objects, rule)
		run.Spec.MutexRules = append(run.Spec.MutexRules, v1alpha1.Reference{Name: rule.Name})
	}
	for i := range u.size {
		name := nodeName(i)
		objects = append(objects, builder.Node(name, builder.WithReady(corev1.ConditionTrue), builder.WithNodeLabels(map[string]string{
			openshift.NodeRoleLabel(openshift.PoolWorker): "", openshift.NodeRoleLabel(gatedPool): "", corev1.LabelHostname: name,
		})))
	}
	for _, object := range append(objects, run) {
		if err := u.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
		}
	}
	if err := u.cluster.StartMachineConfig(ctx, openshift.Options{CordonOnly: true, RebootBy: openshift.RebootSkip}); err != nil {
		return err
	}
	return u.pin()
}

func nodeName(i int) string { return fmt.Sprintf("node-%03d", i) }

// measureRun measures the run while it waits, and then from its first node to its last.
func (u *upgradeBench) measureRun(ctx context.Context) error {
	c := u.column("Nodes", fmt.Sprint(u.size))
	return u.with(ctx, []string{"--controllers=upgrade"}, func(ctx context.Context, o *operator) error {
		if err := openshift.Upgrade(ctx, u.client, newVersion); err != nil {
			return err
		}
		err := u.await(ctx, func(run *v1alpha1.MutexRunConfig) bool {
			return run.Status.Phase == v1alpha1.PhaseWaiting && int(run.Status.Total) == u.size && run.Status.Version == newVersion
		})
		if err != nil {
			return err
		}
		if err := u.silent(ctx, time.Second); err != nil {
			return err
		}
		if err := u.addRest(ctx, o, c); err != nil {
			return err
		}
		return u.upgrade(ctx, o, c)
	})
}

// upgrade removes the window, which starts the run, and follows the run to its end.
func (u *upgradeBench) upgrade(ctx context.Context, o *operator, c column) error {
	t, stop, err := u.watchTurns(ctx)
	if err != nil {
		return err
	}
	defer stop()
	m, err := u.measure(ctx, o.PID, harness.User, func() error {
		if err := u.merge(ctx, &v1alpha1.MutexRunConfig{ObjectMeta: inGate("run")}, `{"spec":{"windows":null}}`); err != nil {
			return err
		}
		return u.await(ctx, func(run *v1alpha1.MutexRunConfig) bool { return run.Status.Phase == v1alpha1.PhaseDone })
	})
	if err != nil {
		return err
	}
	overheads, err := t.overheads(u.size, m.begun)
	if err != nil {
		return err
	}
	made, nodes := m.requests, float64(u.size)
	c.add("the run", m.seconds, inSeconds)
	c.add("beyond Jobs and upgrade, p50", quantile(overheads, 0.5), inSeconds)
	c.add("beyond Jobs and upgrade, p99", quantile(overheads, 0.99), inSeconds, atMost(1))
	c.add("beyond Jobs and upgrade, max", quantile(overheads, 1), inSeconds)
	c.add("requests for each node", float64(len(made))/nodes, ratio)
	c.add("writes for each node", float64(len(made.writes()))/nodes, ratio)
	c.addKinds(made, u.size)
	return nil
}

func (u *upgradeBench) await(ctx context.Context, done func(*v1alpha1.MutexRunConfig) bool) error {
	run := &v1alpha1.MutexRunConfig{}
	return wait(ctx, 100*time.Millisecond, func() error {
		err := u.client.Get(ctx, client.ObjectKey{Namespace: gateNamespace, Name: "run"}, run)
		if err == nil && !done(run) {
			err = fmt.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
		}
		return err
	})
}

// bareClient sends for each node, one after the other, what Drover cannot do without: the lease, the Jobs, the release, and the end of the lease.
func (u *upgradeBench) bareClient(ctx context.Context) error {
	bare := &floor{writers: 1}
	for i := range u.size {
		name := nodeName(i)
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: "floor-" + name}}
		writes := []write{create(lease)}
		for j := range rules {
			job := &batchv1.Job{ObjectMeta: inGate(fmt.Sprintf("floor-%s-%d", name, j))}
			job.Spec.Template.Spec = corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "check", Image: "example.com/check"}},
			}
			writes = append(writes, create(job))
		}
		body := []byte(`{"metadata":{"labels":{"floor.example.com/a":null},"annotations":{"floor.example.com/b":"c"}}}`)
		writes = append(writes, patch(metadataOf(builder.Node(name), "v1", "Node"), types.MergePatchType, body), remove(lease))
		bare.items = append(bare.items, writes)
	}
	seconds, err := bare.run(ctx, u.stage)
	u.column("Nodes", fmt.Sprint(u.size)).add("a bare client, mean", seconds/float64(u.size), inSeconds)
	return err
}

// turn is the turn of a node in a gated upgrade.
type turn struct {
	// jobs is how long its Jobs took.
	jobs               time.Duration
	released, upgraded time.Time
}

// turns are the turns of all nodes.
type turns struct {
	mu    sync.Mutex
	nodes map[string]*turn
	order []string
}

// watchTurns ends Jobs as soon as they exist, and watches what happens to the nodes, until it is stopped.
func (u *upgradeBench) watchTurns(ctx context.Context) (t *turns, stop func(), err error) {
	t = &turns{nodes: map[string]*turn{}}
	seen := map[types.UID]bool{}
	stopJobs, err := u.follow(ctx, &batchv1.JobList{}, func(object client.Object) {
		if job, ok := object.(*batchv1.Job); ok && !seen[job.UID] {
			seen[job.UID] = true
			go t.finish(ctx, u.client, job)
		}
	})
	if err != nil {
		return nil, nil, err
	}
	stopNodes, err := u.follow(ctx, &corev1.NodeList{}, t.observe)
	if err != nil {
		stopJobs()
		return nil, nil, err
	}
	return t, func() { stopJobs(); stopNodes() }, nil
}

// finish ends a Job, as its controller would.
func (t *turns) finish(ctx context.Context, c client.Client, job *batchv1.Job) {
	begun := time.Now()
	now := metav1.NewTime(begun)
	job.Status = batchv1.JobStatus{StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now})
	}
	if err := c.Status().Update(ctx, job); err != nil {
		progress("ending Job %s: %v", job.Name, err)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	node := job.Annotations[plan.AnnotationNode]
	if t.nodes[node] == nil {
		t.nodes[node] = &turn{}
		t.order = append(t.order, node)
	}
	t.nodes[node].jobs += time.Since(begun)
}

// observe records when a node is released for its upgrade, and when it is upgraded.
func (t *turns) observe(object client.Object) {
	node, ok := object.(*corev1.Node)
	t.mu.Lock()
	defer t.mu.Unlock()
	turn, now := t.nodes[object.GetName()], time.Now()
	if !ok || turn == nil {
		return
	}
	if turn.released.IsZero() && plan.ReleaseOf(node) != nil {
		turn.released = now
	}
	if turn.upgraded.IsZero() && node.Labels[plan.LabelVersion] == newVersion {
		turn.upgraded = now
	}
}

// overheads returns the seconds that each node took beyond its Jobs and its upgrade, from the upgrade of the node before.
func (t *turns) overheads(nodes int, begun time.Time) (seconds []float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) != nodes {
		return nil, fmt.Errorf("%d of %d nodes had a turn", len(t.order), nodes)
	}
	for _, name := range t.order {
		turn := t.nodes[name]
		if turn.released.IsZero() || turn.upgraded.IsZero() {
			return nil, fmt.Errorf("the watch did not show the release and the upgrade of node %s", name)
		}
		seconds = append(seconds, (turn.released.Sub(begun) - turn.jobs).Seconds())
		begun = turn.upgraded
	}
	return seconds, nil
}
