package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// measureDrains drains one half of the nodes after the other, in turns by Drover and by kubectl.
func measureDrains(ctx context.Context, settings settings, r *report) error {
	components := []string{cluster.Kwok, cluster.ControllerManager, cluster.Scheduler}
	base, err := bench.NewStage(ctx, settings.Settings, cluster.Options{Components: components})
	if err != nil {
		return err
	}
	defer base.Close()
	s := &stage{Stage: base, settings: settings}
	bench.Progress("%d pods on %d nodes", s.apps*s.pods, s.nodes)
	if err := s.build(ctx); err != nil {
		return err
	}
	type way struct {
		name string
		do   func(context.Context, string) (drained, error)
		to   *[]drained
	}
	ways := []way{{"Drover", s.byDrover, &r.Drover}}
	if s.kubectl {
		ways = append(ways, way{"kubectl drain", s.byKubectl, &r.Kubectl})
	}
	side := 0
	for round := range s.rounds {
		for _, way := range ways {
			run, err := way.do(ctx, sides[side])
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", way.name, round+1, err)
			}
			bench.Progress("round %d of %d: %s took %.1f s, the budgets allow %.1f s", round+1, s.rounds, way.name, run.Seconds, run.Ideal)
			*way.to = append(*way.to, run)
			side = 1 - side
		}
	}
	return nil
}

// timed makes one run between two moments in which all is calm.
func (s *stage) timed(ctx context.Context, user string, run func() error) (drained, error) {
	if err := s.settled(ctx); err != nil {
		return drained{}, err
	}
	stop, err := s.listen(ctx)
	if err != nil {
		return drained{}, err
	}
	defer stop()
	if s.mark, err = s.Cluster.Audit().Sync(ctx); err != nil {
		return drained{}, err
	}
	begun := time.Now()
	if err := run(); err != nil {
		return drained{}, err
	}
	out := drained{Seconds: time.Since(begun).Seconds()}
	return out, s.read(ctx, user, &out)
}

// read fills in what the audit log and the budgets say about a run.
func (s *stage) read(ctx context.Context, user string, out *drained) error {
	// The last places are given back when the pods that took them are ready elsewhere.
	if err := s.settled(ctx); err != nil {
		return err
	}
	if err := s.heard(ctx); err != nil {
		return err
	}
	if _, err := s.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	budgets := map[string]*budgetUse{}
	err := s.Cluster.Audit().Each(s.mark, func(e *cluster.AuditEvent) error {
		if e.User == user && e.Resource == "pods" {
			out.count(e, budgets)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	idle, times := time.Duration(0), 0
	for app, l := range budgets {
		l.freed = s.freed[app]
		out.Ideal = max(out.Ideal, shortest(l.turns(s.away), s.away, s.ends).Seconds())
		sum, n := l.idle(s.away)
		idle, times = idle+sum, times+n
	}
	if times > 0 {
		out.Idle = idle.Seconds() / float64(times)
	}
	return nil
}

// count counts one request about a pod.
func (d *drained) count(e *cluster.AuditEvent, budgets map[string]*budgetUse) {
	switch {
	case e.Subresource == "" && e.Verb == "get":
		d.Gets++
	case e.Subresource != "eviction":
	case e.Code == http.StatusCreated:
		d.Evicted++
		app, _, _ := strings.Cut(e.Name, "-")
		if budgets[app] == nil {
			budgets[app] = &budgetUse{}
		}
		budgets[app].take(e.Name, e.Answered)
	case e.Code == http.StatusTooManyRequests:
		d.Blocked++
	default:
		d.Other++
	}
}

// byDrover puts all nodes of a side into maintenance at once, waits until all are drained, and gives them back.
func (s *stage) byDrover(ctx context.Context, side string) (out drained, err error) {
	names, err := s.nodesOf(ctx, side)
	if err != nil {
		return out, err
	}
	return out, s.With(ctx, func(operator *harness.Operator) error {
		before, err := bench.CPUSeconds(operator.PID)
		if err != nil {
			return err
		}
		out, err = s.timed(ctx, harness.User, func() error {
			if err := s.begin(ctx, names); err != nil {
				return err
			}
			return s.allDrained(ctx, len(names))
		})
		if err != nil {
			return err
		}
		after, err := bench.CPUSeconds(operator.PID)
		if err != nil {
			return err
		}
		out.CPU = after - before
		if out.Memory, err = bench.PeakMemory(operator.PID); err != nil {
			return err
		}
		return s.giveBack(ctx)
	})
}

func (s *stage) begin(ctx context.Context, names []string) error {
	for _, name := range names {
		object := &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: medik8s.NodeMaintenanceSpec{NodeName: name}}
		if err := s.Client.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) allDrained(ctx context.Context, want int) error {
	// With many nodes a list takes some time of the API server's.
	interval := 100*time.Millisecond + time.Duration(want)*2*time.Millisecond
	return harness.WaitLonger(ctx, time.Hour, interval, func() error {
		var list medik8s.NodeMaintenanceList
		if err := s.Client.List(ctx, &list); err != nil {
			return err
		}
		done := 0
		for i := range list.Items {
			if meta.IsStatusConditionTrue(list.Items[i].Status.Conditions, "Drained") {
				done++
			}
		}
		if done < want {
			return fmt.Errorf("%d of %d nodes are drained", done, want)
		}
		return nil
	})
}

// giveBack ends all maintenances and waits until every node may be used again.
func (s *stage) giveBack(ctx context.Context) error {
	if err := s.Client.DeleteAllOf(ctx, &medik8s.NodeMaintenance{}); err != nil {
		return err
	}
	return harness.WaitLonger(ctx, time.Minute, 100*time.Millisecond, func() error {
		var nodes corev1.NodeList
		if err := s.Client.List(ctx, &nodes); err != nil {
			return err
		}
		for i := range nodes.Items {
			if nodes.Items[i].Spec.Unschedulable {
				return fmt.Errorf("node %s is cordoned", nodes.Items[i].Name)
			}
		}
		var left medik8s.NodeMaintenanceList
		if err := s.Client.List(ctx, &left, client.Limit(1)); err != nil || len(left.Items) > 0 {
			return errors.Join(err, fmt.Errorf("%d maintenances are left", len(left.Items)))
		}
		return nil
	})
}

// byKubectl runs a process for each node of a side, all at once.
func (s *stage) byKubectl(ctx context.Context, side string) (drained, error) {
	names, err := s.nodesOf(ctx, side)
	if err != nil {
		return drained{}, err
	}
	// kubectl has a user of its own, which distinguishes its requests.
	config, err := s.Cluster.As("drainer", "system:masters")
	if err != nil {
		return drained{}, err
	}
	kubeconfig := filepath.Join(s.Dir(), "drainer.kubeconfig")
	if err := cluster.WriteKubeconfig(config, kubeconfig); err != nil {
		return drained{}, err
	}
	out, err := s.timed(ctx, "drainer", func() error { return s.drainAll(ctx, names, kubeconfig) })
	if err != nil {
		return out, err
	}
	return out, s.cordon(ctx, side, false)
}

func (s *stage) drainAll(ctx context.Context, names []string, kubeconfig string) error {
	var group sync.WaitGroup
	failures := make([]error, len(names))
	for i, name := range names {
		group.Go(func() {
			command := exec.CommandContext(ctx, s.sandbox, "run", "kubectl", "drain", name, "--kubeconfig="+kubeconfig, "--force",
				"--ignore-daemonsets", "--delete-emptydir-data", "--timeout=600s")
			if text, err := command.CombinedOutput(); err != nil {
				failures[i] = fmt.Errorf("kubectl drain %s: %w: %s", name, err, text)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// measureMemory runs the operator with all capabilities on a large cluster.
func measureMemory(ctx context.Context, settings settings, r *report) error {
	bench.Progress("a cluster of %d nodes and %d pods", settings.large, settings.large*settings.podsEach)
	s, err := bench.NewStage(ctx, settings.Settings, cluster.Options{Components: []string{cluster.Kwok}})
	if err != nil {
		return err
	}
	defer s.Close()
	pool := cluster.PoolOptions{Name: "large", Machines: settings.large, RunningPods: settings.podsEach, Log: os.Stderr}
	if err := cluster.CreatePool(ctx, s.Cluster.Admin(), pool); err != nil {
		return err
	}
	begun := time.Now()
	return s.With(ctx, func(operator *harness.Operator) error {
		r.Memory = &memory{Nodes: settings.large, Pods: settings.large * settings.podsEach, Start: time.Since(begun).Seconds()}
		var err error
		r.Memory.Peak, err = bench.PeakMemory(operator.PID)
		return err
	})
}
