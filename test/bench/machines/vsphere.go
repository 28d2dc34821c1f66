package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// vspherePool is the pool on a vCenter.
const vspherePool = "virtual"

// clonesAtOnce is the default of the provider.
const clonesAtOnce = 8

// restOnVSphere is how long Machines on a vCenter are watched at rest.
const restOnVSphere = 30 * time.Second

// vsphere is what Machines on a vCenter cost.
type vsphere struct {
	Machines int            `json:"machines"`
	Up       vsphereFigures `json:"up"`
	Down     vsphereFigures `json:"down"`
	// Window is how long they were watched at rest, RestCalls the calls in it by method, and RestWaits those of the collector, which wait for changes.
	Window    string             `json:"restWindow"`
	RestCalls map[string]float64 `json:"restCalls"`
	RestWaits float64            `json:"restWaits"`
	// Clones is how many there were, and Left how many virtual machines were left at the end.
	Clones int `json:"clones"`
	Left   int `json:"left"`
}

// vsphereFigures are those of one direction: up or down.
type vsphereFigures struct {
	// Seconds is how long Drover took, Floor how long a client takes that does nothing but clone or destroy as many.
	Seconds float64 `json:"seconds"`
	Floor   float64 `json:"floorSeconds"`
	// CPU and FloorCPU are the processor time in seconds that the vCenter used.
	CPU      float64 `json:"vcenterCPUSeconds"`
	FloorCPU float64 `json:"floorVCenterCPUSeconds"`
	// Calls are those of the vCenter for each Machine, without those of the collector that wait for changes; Methods are all of them by method.
	Calls   float64            `json:"callsPerMachine"`
	Methods map[string]float64 `json:"callsByMethod"`
}

// onVSphere makes and removes Machines on a vCenter, and then as many virtual machines by a client that does nothing else.
func (s *stage) onVSphere(ctx context.Context) (*vsphere, error) {
	out := &vsphere{Machines: s.settings.vsphere, Window: restOnVSphere.String()}
	site, err := s.Cluster.StartVCenter(ctx, cluster.VCenterOptions{CloneDelay: s.clone})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err := s.Cluster.StopSimulator(cluster.VCenter); err != nil {
			bench.Progress("stopping the vCenter: %v", err)
		}
	}()
	if err := s.createPool(ctx, site); err != nil {
		return nil, err
	}
	bench.Progress("making %d Machines on a vCenter", out.Machines)
	do := func(operator *harness.Operator) error { return s.life(ctx, operator, site, out) }
	if err := s.With(ctx, do, "--controllers=*", "--metadata-writes-per-second=0", "--providers=*,vsphere"); err != nil {
		return nil, err
	}
	state, err := site.State(ctx)
	if err != nil {
		return nil, err
	}
	out.Clones, out.Left = state.Clones, len(state.Machines)
	bench.Progress("on a vCenter: up %.1f s, down %.1f s; now the floor", out.Up.Seconds, out.Down.Seconds)
	return out, s.vsphereFloor(ctx, site, out)
}

// createPool creates the pool on the vCenter.
func (s *stage) createPool(ctx context.Context, site *vcenter.Site) error {
	raw, err := json.Marshal(site.ProviderSpec())
	if err != nil {
		return err
	}
	return s.Client.Create(ctx, harness.NewMachineSet(vspherePool, 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	}))
}

// life makes the Machines, watches them at rest, and removes them.
func (s *stage) life(ctx context.Context, operator *harness.Operator, site *vcenter.Site, out *vsphere) error {
	token, err := harness.MetricsToken(ctx, s.Cluster, s.Client)
	if err != nil {
		return err
	}
	calls := func() (map[string]float64, error) {
		text, err := operator.Scrape(ctx, token)
		return callsIn(text), err
	}
	if err := s.vsphereScale(ctx, site, out.Machines, calls, &out.Up, out.Machines); err != nil {
		return err
	}
	// The last Nodes have their labels then, and virtual machines that have just booted are not looked at any more.
	if err := bench.Sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	before, err := calls()
	if err != nil {
		return err
	}
	if err := bench.Sleep(ctx, restOnVSphere); err != nil {
		return err
	}
	after, err := calls()
	if err != nil {
		return err
	}
	out.RestCalls, out.RestWaits = since(before, after)
	return s.vsphereScale(ctx, site, 0, calls, &out.Down, out.Machines)
}

// vsphereScale measures one direction.
func (s *stage) vsphereScale(
	ctx context.Context, site *vcenter.Site, replicas int, calls func() (map[string]float64, error), f *vsphereFigures, machines int,
) error {
	before, err := calls()
	if err != nil {
		return err
	}
	used, err := bench.CPUSeconds(site.PID)
	if err != nil {
		return err
	}
	begun := time.Now()
	if err := s.Scale(ctx, vspherePool, replicas); err != nil {
		return err
	}
	f.Seconds = time.Since(begun).Seconds()
	if f.CPU, err = bench.CPUSeconds(site.PID); err != nil {
		return err
	}
	f.CPU -= used
	after, err := calls()
	if err != nil {
		return err
	}
	made, _ := since(before, after)
	f.Calls, f.Methods = sum(made)/float64(machines), made
	for method := range made {
		made[method] /= float64(machines)
	}
	return nil
}

// waiting is the method with which the collector waits for changes, whether there are Machines or not.
const waiting = "WaitForUpdatesEx"

// since returns how many calls there were between two moments by method, and how many of the collector.
func since(before, after map[string]float64) (made map[string]float64, waits float64) {
	made = map[string]float64{}
	for method, n := range after {
		switch {
		case method == waiting:
			waits = n - before[method]
		case n > before[method]:
			made[method] = n - before[method]
		}
	}
	return made, waits
}

// sum adds calls of all methods.
func sum(calls map[string]float64) (total float64) {
	for _, n := range calls {
		total += n
	}
	return total
}

var callLine = regexp.MustCompile(`(?m)^drover_vsphere_calls_total\{method="([^"]*)"[^}]*\} ([0-9.e+]+)$`)

// callsIn returns the calls of a vCenter by method, from the metrics of an operator.
func callsIn(metrics string) map[string]float64 {
	counts := map[string]float64{}
	for _, match := range callLine.FindAllStringSubmatch(metrics, -1) {
		if n, err := strconv.ParseFloat(match[2], 64); err == nil {
			counts[match[1]] += n
		}
	}
	return counts
}

// vsphereFloor clones as many virtual machines, and destroys them, by a client that does nothing else.
func (s *stage) vsphereFloor(ctx context.Context, site *vcenter.Site, out *vsphere) error {
	floor, err := newCloner(ctx, site, out.Machines)
	if err != nil {
		return err
	}
	for _, direction := range []struct {
		f  *vsphereFigures
		do func(ctx context.Context, i int) error
	}{{&out.Up, floor.clone}, {&out.Down, floor.destroy}} {
		used, err := bench.CPUSeconds(site.PID)
		if err != nil {
			return err
		}
		begun := time.Now()
		if err := each(ctx, out.Machines, direction.do); err != nil {
			return fmt.Errorf("the floor: %w", err)
		}
		direction.f.Floor = time.Since(begun).Seconds()
		if direction.f.FloorCPU, err = bench.CPUSeconds(site.PID); err != nil {
			return err
		}
		direction.f.FloorCPU -= used
	}
	return nil
}
