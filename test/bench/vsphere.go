package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	vim "github.com/vmware/govmomi/vim25/types"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// cloneTime is how long the vCenter takes for a clone; clonesAtOnce, the provider's default, is how many there are at the same time.
const (
	cloneTime    = 5 * time.Second
	clonesAtOnce = 8
)

// directions name what happens to Machines, in this order.
var directions = []string{"created", "deleted"}

// onVSphere creates and deletes Machines on a vCenter, and then as many virtual machines by a client that does nothing else.
func (m *machineBench) onVSphere(ctx context.Context) error {
	// Machines of the steps before would take part of the processors.
	if err := m.withMachines(ctx, func(ctx context.Context, _ *operator) error { return m.scale(ctx, withTeam("measured"), 0) }); err != nil {
		return err
	}
	site, err := m.cluster.StartVCenter(ctx, cluster.VCenterOptions{CloneDelay: cloneTime})
	if err != nil {
		return err
	}
	if err := errors.Join(harness.InstallVCenter(ctx, m.cluster), m.pin()); err != nil {
		return err
	}
	set, err := vsphereSet(site)
	if err != nil {
		return err
	}
	var seconds [2]float64
	err = m.withMachines(ctx, func(ctx context.Context, o *operator) error {
		for i, replicas := range []int{m.vsphere, 0} {
			if seconds[i], err = m.scaleVSphere(ctx, o, site, set, replicas, directions[i]); err != nil {
				return err
			}
			if replicas > 0 {
				if err := m.restVSphere(ctx, o); err != nil {
					return err
				}
			}
		}
		return nil
	}, "--providers=*,vsphere")
	if err != nil {
		return err
	}
	return m.bareClones(ctx, site, seconds)
}

func (m *machineBench) vsphereColumn(name string) column {
	return m.column(fmt.Sprintf("%d Machines on a vCenter", m.vsphere), name)
}

// vsphereSet returns a MachineSet of the vCenter.
func vsphereSet(site *vcenter.Site) (*machinev1beta1.MachineSet, error) {
	raw, err := json.Marshal(site.ProviderSpec())
	return harness.NewMachineSet("virtual", 0, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	}), err
}

// scaleVSphere measures one direction.
func (m *machineBench) scaleVSphere(
	ctx context.Context, o *operator, site *vcenter.Site, set *machinev1beta1.MachineSet, replicas int, direction string,
) (float64, error) {
	before, err := m.calls(ctx, o)
	if err != nil {
		return 0, err
	}
	span, err := m.measure(ctx, site.PID, harness.User, func() error { return m.scale(ctx, set, replicas) })
	if err != nil {
		return 0, err
	}
	made, err := m.calls(ctx, o)
	if err != nil {
		return 0, err
	}
	c := m.vsphereColumn(direction)
	c.add("Drover", span.seconds, inSeconds)
	c.add("processor time of the vCenter", span.cpu, inSeconds)
	limit := map[string]float64{"created": 5, "deleted": 3}[direction]
	c.add("calls for each Machine", (made-before)/float64(m.vsphere), ratio, atMost(limit))
	return span.seconds, nil
}

// restVSphere counts the calls while Machines run.
func (m *machineBench) restVSphere(ctx context.Context, o *operator) error {
	// Until then the last Nodes get their labels, and Drover looks at virtual machines that have just booted.
	if err := sleep(ctx, 10*time.Second); err != nil {
		return err
	}
	before, err := m.calls(ctx, o)
	if err != nil {
		return err
	}
	if err := sleep(ctx, m.window); err != nil {
		return err
	}
	after, err := m.calls(ctx, o)
	m.vsphereColumn("created").add("calls at rest for each Machine", (after-before)/float64(m.vsphere), ratio, atMost(0.1))
	return err
}

var callLine = regexp.MustCompile(`(?m)^drover_vsphere_calls_total\{method="([^"]*)"[^}]*\} ([0-9.e+]+)$`)

// calls reads how often the operator called the vCenter. It leaves out the collector's calls that wait for changes.
func (m *machineBench) calls(ctx context.Context, o *operator) (calls float64, err error) {
	text, err := o.Scrape(ctx, m.token)
	for _, match := range callLine.FindAllStringSubmatch(text, -1) {
		if n, err := strconv.ParseFloat(match[2], 64); err == nil && match[1] != "WaitForUpdatesEx" {
			calls += n
		}
	}
	return calls, err
}

// bareClones clones as many virtual machines, and destroys them.
func (m *machineBench) bareClones(ctx context.Context, site *vcenter.Site, drover [2]float64) error {
	cloner, err := newCloner(ctx, site, m.vsphere)
	if err != nil {
		return err
	}
	for i, do := range []func(context.Context, int) error{cloner.clone, cloner.destroy} {
		span, err := m.measure(ctx, site.PID, harness.User, func() error { return each(ctx, clonesAtOnce, m.vsphere, do) })
		if err != nil {
			return fmt.Errorf("bare clones: %w", err)
		}
		c, share := m.vsphereColumn(directions[i]), aim{}
		if i == 0 {
			share = atLeast(0.8)
		}
		c.add("bare client", span.seconds, inSeconds)
		c.add("processor time of the vCenter, bare client", span.cpu, inSeconds)
		c.add("share of the bare client's speed", span.seconds/drover[i], ratio, share)
	}
	return nil
}

// cloner clones and destroys virtual machines; it neither powers on nor tags, and writes nothing to the API server.
type cloner struct {
	template *object.VirtualMachine
	folder   *object.Folder
	spec     vim.VirtualMachineRelocateSpec
	vms      []vim.ManagedObjectReference
}

// newCloner looks up what the clones are made of.
func newCloner(ctx context.Context, site *vcenter.Site, machines int) (*cloner, error) {
	api, err := site.VIM(ctx)
	if err != nil {
		return nil, err
	}
	finder := find.NewFinder(api)
	datacenter, err := finder.Datacenter(ctx, vcenter.Datacenter)
	if err != nil {
		return nil, err
	}
	finder.SetDatacenter(datacenter)
	c := &cloner{vms: make([]vim.ManagedObjectReference, machines)}
	c.template, err = finder.VirtualMachine(ctx, vcenter.Template)
	folder, folderErr := finder.DefaultFolder(ctx)
	pool, poolErr := finder.ResourcePool(ctx, vcenter.Pool)
	store, storeErr := finder.Datastore(ctx, vcenter.Datastore)
	if err := errors.Join(err, folderErr, poolErr, storeErr); err != nil {
		return nil, err
	}
	c.folder = folder
	c.spec = vim.VirtualMachineRelocateSpec{
		Folder: new(folder.Reference()), Pool: new(pool.Reference()), Datastore: new(store.Reference()),
	}
	return c, nil
}

func (c *cloner) clone(ctx context.Context, i int) error {
	task, err := c.template.Clone(ctx, c.folder, fmt.Sprintf("floor-%d", i), vim.VirtualMachineCloneSpec{
		Location: c.spec, Config: &vim.VirtualMachineConfigSpec{InstanceUuid: string(uuid.NewUUID())},
	})
	if err != nil {
		return err
	}
	info, err := task.WaitForResult(ctx)
	if err != nil {
		return err
	}
	ref, ok := info.Result.(vim.ManagedObjectReference)
	if !ok {
		return fmt.Errorf("the clone ended with %v", info.Result)
	}
	c.vms[i] = ref
	return nil
}

func (c *cloner) destroy(ctx context.Context, i int) error {
	task, err := object.NewVirtualMachine(c.template.Client(), c.vms[i]).Destroy(ctx)
	if err != nil {
		return err
	}
	return task.Wait(ctx)
}
