package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// machineBench is a control plane with the capability machines. The Nodes of the provider kwok are ready from the start.
type machineBench struct {
	*stage

	machines, blocked, atRest, vsphere int
}

// machines measures the creation and deletion of Machines.
func machines(flags *flag.FlagSet) func(context.Context, *bench) error {
	m := &machineBench{}
	flags.IntVar(&m.machines, "machines", 1000, "Machines that are created and deleted")
	flags.IntVar(&m.blocked, "stuck", 500, "Machines whose drains are blocked while others are created and deleted, 0 for none")
	flags.IntVar(&m.atRest, "rest", 5000, "Machines at rest, 0 for none")
	flags.IntVar(&m.vsphere, "vsphere", 160, "Machines that are created and deleted on a vCenter, 0 for none")
	return func(ctx context.Context, b *bench) error {
		return b.onStage(ctx, cluster.Options{}, func(s *stage) error {
			m.stage = s
			if err := harness.InstallMachines(ctx, s.cluster); err != nil {
				return err
			}
			steps := []step{{"creations and deletions", m.compare}}
			if m.blocked > 0 {
				steps = append(steps, step{"blocked drains", m.besideBlockedDrains})
			}
			if m.atRest > 0 {
				steps = append(steps, step{"Machines at rest", m.rest})
			}
			if m.vsphere > 0 {
				steps = append(steps, step{"Machines on a vCenter", m.onVSphere})
			}
			return inOrder(ctx, steps)
		})
	}
}

// withMachines runs the operator with all capabilities and without a limit of the rate.
func (s *stage) withMachines(ctx context.Context, do func(context.Context, *operator) error, args ...string) error {
	return s.with(ctx, append(args, allCapabilities, unlimitedRate), do)
}

// scale scales a MachineSet, which it creates if need be, and waits until it has so many Machines.
func (s *stage) scale(ctx context.Context, set *machinev1beta1.MachineSet, replicas int) error {
	if err := client.IgnoreAlreadyExists(s.client.Create(ctx, set.DeepCopy())); err != nil {
		return err
	}
	if err := s.merge(ctx, set.DeepCopy(), `{"spec":{"replicas":%d}}`, replicas); err != nil {
		return err
	}
	return wait(ctx, 100*time.Millisecond, func() error {
		now := &machinev1beta1.MachineSet{}
		if err := s.client.Get(ctx, machineSet(set.Name), now); err != nil {
			return err
		}
		if int(now.Status.AvailableReplicas) != replicas || int(now.Status.Replicas) != replicas {
			return fmt.Errorf("%d of %d Machines are available", now.Status.AvailableReplicas, replicas)
		}
		if replicas > 0 {
			return nil
		}
		left, err := s.machinesOf(ctx, set.Name, client.Limit(1))
		if err == nil && len(left) > 0 {
			err = fmt.Errorf("some Machines are left")
		}
		return err
	})
}

// machinesOf lists the Machines of a MachineSet.
func (s *stage) machinesOf(ctx context.Context, set string, options ...client.ListOption) ([]machinev1beta1.Machine, error) {
	var list machinev1beta1.MachineList
	options = append(options, client.InNamespace(cluster.MachineNamespace), client.MatchingLabels{cluster.MachineSetLabel: set})
	err := s.client.List(ctx, &list, options...)
	return list.Items, err
}

// withTeam returns an empty MachineSet that declares a label.
func withTeam(name string) *machinev1beta1.MachineSet {
	return harness.NewMachineSet(name, 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	})
}

// compare measures Drover, and then bare writers.
func (m *machineBench) compare(ctx context.Context) error {
	for round := range m.rounds {
		made := [2]requests{}
		seconds := [2]float64{}
		err := m.withMachines(ctx, func(ctx context.Context, o *operator) error {
			for i, replicas := range []int{m.machines, 0} {
				begun := time.Now()
				span, err := m.measure(ctx, o.PID, harness.User, func() error {
					err := m.scale(ctx, withTeam("measured"), replicas)
					seconds[i] = time.Since(begun).Seconds()
					// Labels on the last Nodes and the leases of drains are requests for them, too.
					return errors.Join(err, m.silent(ctx, time.Second))
				})
				if err != nil {
					return err
				}
				made[i] = span.requests
			}
			return nil
		})
		if err != nil {
			return err
		}
		for i, bare := range []*floor{m.bareWrites(creation), m.bareWrites(deletion)} {
			floor, err := bare.run(ctx, m.stage)
			if err != nil {
				return fmt.Errorf("bare writers: %w", err)
			}
			c := m.column(fmt.Sprintf("%d Machines", m.machines), fmt.Sprint([]string{"created ", "deleted "}[i], round+1))
			c.add("Drover", seconds[i], inSeconds)
			c.add("bare writers", floor, inSeconds)
			c.add("share of the bare writers' speed", floor/seconds[i], ratio, atLeast(0.7))
			c.addMachineWrites(made[i], m.machines, []float64{6, 7}[i])
		}
	}
	return nil
}

// addMachineWrites adds the requests for each Machine. Some writes, of the status of the MachineSet among them, are not for a Machine.
func (c column) addMachineWrites(made requests, machines int, limit float64) {
	each := made.writes().where(func(r *cluster.AuditEvent) bool { return r.Resource != "machinesets" })
	c.add("requests for each Machine", float64(len(made))/float64(machines), ratio)
	// The operator also writes a little when it starts.
	c.add("writes for each Machine", float64(len(each))/float64(machines), ratio, atMost(limit+0.05))
	c.add("refused writes for each Machine", float64(len(each.refused()))/float64(machines), ratio, atMost(0.05))
	c.addKinds(made, machines)
}

// rest measures an operator that is started beside many Machines.
func (m *machineBench) rest(ctx context.Context) error {
	set := withTeam("measured")
	err := m.withMachines(ctx, func(ctx context.Context, _ *operator) error {
		if err := m.scale(ctx, set, m.atRest); err != nil {
			return err
		}
		return m.silent(ctx, time.Second)
	})
	if err != nil {
		return err
	}
	c := m.column("Rest", fmt.Sprintf("%d Machines", m.atRest))
	return m.withMachines(ctx, func(ctx context.Context, o *operator) error {
		if err := m.silent(ctx, time.Second); err != nil {
			return err
		}
		if err := m.addRest(ctx, o, c); err != nil {
			return err
		}
		seconds, err := m.reportReadiness(ctx, set.Name)
		if err != nil {
			return err
		}
		c.add("Node to status of the MachineSet, p50", quantile(seconds, 0.5), inSeconds)
		c.add("Node to status of the MachineSet, max", quantile(seconds, 1), inSeconds, atMost(1))
		memory, err := peakMemory(o.PID)
		c.add("peak memory", memory, inMiB, atMost(300))
		return err
	})
}

// reportReadiness changes the readiness of Nodes, and measures how long it takes until the MachineSet's status shows the change.
func (m *machineBench) reportReadiness(ctx context.Context, set string) (seconds []float64, err error) {
	machines, err := m.machinesOf(ctx, set)
	if err != nil {
		return nil, err
	}
	ready := make(chan int, 100)
	stop, err := m.follow(ctx, &machinev1beta1.MachineSetList{}, func(object client.Object) {
		if set, ok := object.(*machinev1beta1.MachineSet); ok && int(set.Status.Replicas) == m.atRest {
			ready <- int(set.Status.ReadyReplicas)
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	for i := range min(20, len(machines)) {
		for more, readiness := range []string{"False", "True"} {
			node := builder.Node(machines[i].Status.NodeRef.Name)
			body := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, readiness)
			begun := time.Now()
			if err := m.client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
				return nil, err
			}
			for now := -1; now != m.atRest-1+more; {
				select {
				case now = <-ready:
				case <-time.After(time.Minute):
					return nil, fmt.Errorf("the MachineSet %s does not show that Node %s is Ready=%s", set, node.Name, readiness)
				}
			}
			seconds = append(seconds, time.Since(begun).Seconds())
		}
	}
	return seconds, nil
}
