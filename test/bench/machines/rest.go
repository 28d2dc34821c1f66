package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// turns is how many Nodes turn NotReady and Ready again.
const turns = 20

// atRest is what a large pool costs while nothing changes, and how soon it reports a change.
type atRest struct {
	Writes int `json:"writes"`
	// Memory is the peak of the resident memory in MiB, of an operator that was started when the Machines were there.
	Memory float64 `json:"memoryMiB"`
	// CPU is the processor time in seconds that was used in the window.
	CPU float64 `json:"cpuSeconds"`
	// Seconds are from the change of a Node's readiness to the MachineSet's status.
	Seconds []float64 `json:"nodeToMachineSetSeconds"`
}

func (r *atRest) median() float64 { return slices.Sorted(slices.Values(r.Seconds))[len(r.Seconds)/2] }
func (r *atRest) worst() float64  { return slices.Max(r.Seconds) }

// atRest makes a large pool, and looks at an operator that is started beside it.
func (s *stage) atRest(ctx context.Context) (*atRest, error) {
	bench.Progress("making %d Machines", s.rest)
	err := s.with(ctx, func(*harness.Operator) error {
		mark, err := s.Cluster.Audit().Sync(ctx)
		if err != nil {
			return err
		}
		if err := s.Scale(ctx, pool, s.rest); err != nil {
			return err
		}
		return s.quiet(ctx, mark)
	})
	if err != nil {
		return nil, err
	}
	r := &atRest{}
	return r, s.with(ctx, func(operator *harness.Operator) error { return s.watch(ctx, operator.PID, r) })
}

func (s *stage) watch(ctx context.Context, pid int, r *atRest) error {
	before, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	if err := s.quiet(ctx, before); err != nil {
		return err
	}
	bench.Progress("watching it for %s", s.window)
	mark, err := s.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	if _, r.CPU, err = bench.Usage(ctx, pid, s.window); err != nil {
		return err
	}
	if r.Writes, err = s.Writes(ctx, mark); err != nil {
		return err
	}
	if err := s.turn(ctx, r); err != nil {
		return err
	}
	r.Memory, err = bench.PeakMemory(pid)
	return err
}

// turn has Nodes turn NotReady and Ready again, and measures until the MachineSet's status says so.
func (s *stage) turn(ctx context.Context, r *atRest) error {
	machines, err := s.Machines(ctx, pool)
	if err != nil {
		return err
	}
	watch, err := s.Client.Watch(ctx, &machinev1beta1.MachineSetList{}, client.InNamespace(cluster.MachineNamespace))
	if err != nil {
		return err
	}
	defer watch.Stop()
	for i := range turns {
		for ready, readiness := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionTrue} {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machines[i].Status.NodeRef.Name}}
			patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, readiness)
			begun := time.Now()
			if err := s.Client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, patch)); err != nil {
				return err
			}
			for want := s.rest - 1 + ready; ; {
				event, open := <-watch.ResultChan()
				if !open {
					return fmt.Errorf("the watch ended")
				}
				set, ok := event.Object.(*machinev1beta1.MachineSet)
				if ok && set.Name == pool && int(set.Status.ReadyReplicas) == want {
					break
				}
			}
			r.Seconds = append(r.Seconds, time.Since(begun).Seconds())
		}
	}
	return nil
}
