package machines

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// TestVSphere_Life: a MachineSet becomes virtual machines and Nodes, is scaled, and goes without a trace in the vCenter.
func TestVSphere_Life(t *testing.T) {
	w, _ := world(t, vsphereProviders)
	site := w.StartVCenter(cluster.VCenterOptions{ClusterID: "cluster-a", BootDelay: 200 * time.Millisecond})
	p := w.MakeVSpherePool(site, "vsphere", 3, nil)
	p.Runs(3)
	machine := p.Machines()[0]
	if machine.Spec.ProviderID == nil || machine.Labels["machine.openshift.io/zone"] != vcenter.Zone ||
		machine.Labels["machine.openshift.io/region"] != vcenter.Region {
		t.Errorf("providerID %v, labels %v", machine.Spec.ProviderID, machine.Labels)
	}
	p.Scale(5)
	p.Runs(5)
	p.Scale(0)
	p.Eventually("no virtual machine is left", func() error {
		state, err := site.State(t.Context())
		if left := len(state.Machines); err == nil && left > 0 {
			return fmt.Errorf("%d are left", left)
		}
		return err
	})
	if state, err := site.State(t.Context()); err != nil || state.Clones != 5 {
		t.Errorf("there were %d clones for 5 Machines, error %v", state.Clones, err)
	}
}

// vsphereProviders is the argument of an operator that serves Machines on vSphere.
const vsphereProviders = "--providers=*,vsphere"

// TestVSphere_Crash: wherever the operator is killed, the next one comes to the same end: one clone for each Machine, and nothing left in the
// vCenter.
func TestVSphere_Crash(t *testing.T) {
	harness.TestAllOnly(t, "a kill before and after writes on a vCenter")
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	writes := 0
	t.Run("undisturbed", func(t *testing.T) { writes = crashVSphere(t, "vcrash", harness.CrashPoint{}) })
	if writes < 10 {
		t.Fatalf("the undisturbed run made %d writes: the workload is none", writes)
	}
	points := harness.CrashPoints(t, random, writes)
	t.Logf("%d writes undisturbed, %d points tried", writes, len(points))
	for i, point := range points {
		t.Run(point.String(), func(t *testing.T) { crashVSphere(t, fmt.Sprint("vcrash-", i), point) })
	}
}

// crashVSphere creates and deletes two Machines with an operator that is killed at a point, and another one after it. It returns how many writes
// there were.
func crashVSphere(t *testing.T, name string, point harness.CrashPoint) int {
	t.Helper()
	w := prepared(t)
	site := w.StartVCenter(cluster.VCenterOptions{CloneDelay: 300 * time.Millisecond})
	args := []string{"--controllers=*", vsphereProviders}
	mark := w.AuditMark()
	first := harness.Start(t, env, harness.Options{Args: args, Faults: point.Faults()})
	p := w.MakeVSpherePool(site, name, 2, nil)
	restarted := !point.Kills()
	restart := func() {
		select {
		case <-first.Ended():
			if !restarted {
				restarted = true
				w.Operator(harness.Options{Args: args})
			}
		default:
		}
	}
	p.Eventually("two Machines run", func() error {
		restart()
		_, err := p.Running(2)
		return err
	})
	p.Scale(0)
	var state vcenter.State
	p.Eventually("nothing is left", func() error {
		restart()
		var err error
		if state, err = site.State(t.Context()); err != nil {
			return err
		}
		if left := len(state.Machines) + len(p.Machines()); left > 0 {
			return fmt.Errorf("%d virtual machines and %d Machines are left", len(state.Machines), len(p.Machines()))
		}
		return nil
	})
	if state.Clones != 2 {
		t.Errorf("there were %d clones for 2 Machines", state.Clones)
	}
	return len(w.AllWrites(mark))
}
