package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// podEnds is how long a Pod takes to end.
const podEnds = time.Second

// drainer is the user of kubectl drain, which distinguishes its requests.
const drainer = "drainer"

// drainBench is a control plane with two halves of nodes: while one is drained, its Pods move to the other.
type drainBench struct {
	*stage

	// Each of apps applications has pods Pods. Its PodDisruptionBudget allows away of them to be unavailable.
	machines, apps, pods, away int
	ready                      time.Duration
	kubectl                    bool
	large                      int
}

// drains measures drains of many nodes at the same time, and memory with many Pods.
func drains(flags *flag.FlagSet) func(context.Context, *bench) error {
	d := &drainBench{}
	flags.IntVar(&d.machines, "nodes", 50, "nodes that are drained at the same time")
	flags.IntVar(&d.apps, "apps", 50, "applications, each with a PodDisruptionBudget")
	flags.IntVar(&d.pods, "pods", 20, "Pods of each application")
	flags.IntVar(&d.away, "away", 2, "Pods of an application that may be unavailable")
	flags.DurationVar(&d.ready, "ready", 10*time.Second, "how long a Pod takes to be ready")
	flags.BoolVar(&d.kubectl, "kubectl", true, "also drain by kubectl, with a process for each node")
	flags.IntVar(&d.large, "large", 5000, "nodes with ten Pods each for the measurement of memory, 0 for none")
	return func(ctx context.Context, b *bench) error {
		if b.rounds > 0 {
			components := []string{cluster.Kwok, cluster.ControllerManager, cluster.Scheduler}
			err := b.onStage(ctx, cluster.Options{Components: components}, func(s *stage) error {
				d.stage = s
				return d.compare(ctx)
			})
			if err != nil {
				return err
			}
		}
		if d.large == 0 {
			return nil
		}
		return b.onStage(ctx, cluster.Options{Components: []string{cluster.Kwok}}, func(s *stage) error { return s.fullCaches(ctx, d.large) })
	}
}

// compare drains one half of the nodes after the other, in turns by Drover and by kubectl.
func (d *drainBench) compare(ctx context.Context) error {
	halves := []string{"left", "right"}
	if err := d.build(ctx, halves); err != nil {
		return err
	}
	for i := range d.rounds {
		column := fmt.Sprint("Drover ", i+1)
		if err := d.byDrover(ctx, d.column("Drain", column), halves[0]); err != nil {
			return fmt.Errorf("%s: %w", column, err)
		}
		halves[0], halves[1] = halves[1], halves[0]
		if !d.kubectl {
			continue
		}
		column = fmt.Sprint("kubectl ", i+1)
		if err := d.byKubectl(ctx, d.column("Drain", column), halves[0]); err != nil {
			return fmt.Errorf("%s: %w", column, err)
		}
		halves[0], halves[1] = halves[1], halves[0]
	}
	return nil
}

// timed drains, and adds the figures of what a user requested. The PodDisruptionBudgets allow all that they can before, and after.
func (d *drainBench) timed(ctx context.Context, c column, user string, pid int, drain func() error) error {
	budgets, err := d.watchBudgets(ctx)
	if err != nil {
		return err
	}
	defer budgets.stop()
	if err := budgets.settled(ctx, d); err != nil {
		return err
	}
	budgets.reset()
	m, err := d.measure(ctx, pid, user, drain)
	if err != nil {
		return err
	}
	if err := budgets.settled(ctx, d); err != nil {
		return err
	}
	evictions := m.requests.of("create pods/eviction")
	accepted := evictions.succeeded()
	blocked := evictions.where(func(r *cluster.AuditEvent) bool { return r.Code == http.StatusTooManyRequests })
	allowed, idle := budgets.fastest(d, accepted)
	pods := float64(len(accepted))
	var time, calls, gets aim
	if user == harness.User {
		// Much less than the budgets allow would say that the schedule is wrong.
		time, calls, gets = aim{0.95, 1.05, "at least 0.95, and at most"}, atMost(1.2), exactly(0)
	}
	c.add("all drained after", m.seconds, inSeconds)
	c.add("the budgets allow", allowed, inSeconds)
	c.add("of that", m.seconds/allowed, ratio, time)
	c.add("a place was idle for", idle, inSeconds)
	c.add("requests per Pod", float64(len(evictions)-len(blocked))/pods, ratio, calls)
	c.add("refused by budgets, per Pod", float64(len(blocked))/pods, ratio)
	c.add("GETs per Pod", float64(len(m.requests.of("get pods")))/pods, ratio, gets)
	if user == harness.User {
		c.add("processor time", m.cpu, inSeconds)
	}
	return nil
}

// byDrover puts all nodes of a half into maintenance, waits until all are drained, and ends the maintenance.
func (d *drainBench) byDrover(ctx context.Context, c column, half string) error {
	nodes, err := d.half(ctx, half)
	if err != nil {
		return err
	}
	return d.with(ctx, nil, func(ctx context.Context, o *operator) error {
		err := d.timed(ctx, c, harness.User, o.PID, func() error {
			for i := range nodes {
				object := &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: nodes[i].Name}}
				object.Spec.NodeName = nodes[i].Name
				if err := d.client.Create(ctx, object); err != nil {
					return err
				}
			}
			return d.allDrained(ctx)
		})
		if err != nil {
			return err
		}
		return d.endMaintenance(ctx)
	})
}

func (d *drainBench) allDrained(ctx context.Context) error {
	// A list of many objects takes some of the API server's time.
	interval := 100*time.Millisecond + time.Duration(d.machines)*2*time.Millisecond
	return wait(ctx, interval, func() error {
		var list medik8s.NodeMaintenanceList
		if err := d.client.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if !meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, "Drained") {
				return fmt.Errorf("node %s is not drained", list.Items[i].Name)
			}
		}
		return nil
	})
}

// endMaintenance deletes all NodeMaintenances and waits until they are gone: the nodes are schedulable again before.
func (d *drainBench) endMaintenance(ctx context.Context) error {
	if err := d.client.DeleteAllOf(ctx, &medik8s.NodeMaintenance{}); err != nil {
		return err
	}
	return wait(ctx, 100*time.Millisecond, func() error {
		var left medik8s.NodeMaintenanceList
		err := d.client.List(ctx, &left)
		if err == nil && len(left.Items) > 0 {
			err = fmt.Errorf("%d NodeMaintenances are left", len(left.Items))
		}
		return err
	})
}

// byKubectl drains all nodes of a half at the same time, with a process for each.
func (d *drainBench) byKubectl(ctx context.Context, c column, half string) error {
	nodes, err := d.half(ctx, half)
	if err != nil {
		return err
	}
	config, err := d.cluster.As(drainer, "system:masters")
	if err != nil {
		return err
	}
	kubeconfig := filepath.Join(d.dir, "drainer.kubeconfig")
	if err := cluster.WriteKubeconfig(config, kubeconfig); err != nil {
		return err
	}
	sandbox, err := cluster.Binary()
	if err != nil {
		return err
	}
	err = d.timed(ctx, c, drainer, os.Getpid(), func() error {
		return each(ctx, len(nodes), len(nodes), func(ctx context.Context, i int) error {
			command := exec.CommandContext(ctx, sandbox, "run", "kubectl", "drain", nodes[i].Name, "--kubeconfig="+kubeconfig, "--force",
				"--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s")
			text, err := command.CombinedOutput()
			if err != nil {
				err = fmt.Errorf("kubectl drain %s: %w: %s", nodes[i].Name, err, text)
			}
			return err
		})
	})
	return errors.Join(err, d.cordon(ctx, half, false))
}

// app names the application of a Pod of a Deployment.
func app(pod string) string {
	name, _, _ := strings.Cut(pod, "-")
	return name
}

// fullCaches measures the memory of an operator on a cluster with many nodes and Pods.
func (s *stage) fullCaches(ctx context.Context, nodes int) error {
	const podsEach = 10
	progress("%d nodes with %d Pods each", nodes, podsEach)
	pool := cluster.PoolOptions{Name: "large", Machines: nodes, RunningPods: podsEach, Log: os.Stderr}
	if err := cluster.CreatePool(ctx, s.cluster.Admin(), pool); err != nil {
		return err
	}
	c := s.column("Memory", fmt.Sprintf("%d nodes, %d Pods", nodes, nodes*podsEach))
	err := s.with(ctx, nil, func(_ context.Context, o *operator) error {
		c.add("all cached after", o.ready.Sub(o.begun).Seconds(), inSeconds)
		return nil
	})
	limit := 300.0
	if nodes > 5000 {
		limit = 400
	}
	c.add("peak memory", s.peak, inMiB, atMost(limit))
	return err
}
