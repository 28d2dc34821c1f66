package vcenter

import (
	"context"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// look is how often the virtual machines are looked at.
const look = 100 * time.Millisecond

// Annotations of the Nodes of guests.
const (
	annotationFake  = "kwok.x-k8s.io/node"
	annotationReady = "sandbox.drover.io/ready"
)

// GuestOptions are how guests behave.
type GuestOptions struct {
	// BootDelay is how long it takes from power on until the Node registers.
	BootDelay time.Duration
	// Log is called with an error that concerns one guest.
	Log func(err error)
}

// guest is what is known of a virtual machine.
type guest struct {
	name, uuid, userData string
	on                   bool
	since                time.Time
	booted               bool
	cpus                 int32
	memoryMB             int32
}

// PlayGuests gives addresses to virtual machines that are powered on, and Nodes that kwok plays, until the context ends. When a virtual machine is
// powered off, its Node turns NotReady. When it is destroyed, its Node does not change.
func (s *Server) PlayGuests(ctx context.Context, nodes client.Client, options GuestOptions) {
	known := map[types.ManagedObjectReference]*guest{}
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		var group sync.WaitGroup
		for _, vm := range s.Machines() {
			g := known[vm.Self]
			if g == nil {
				g = &guest{}
				known[vm.Self] = g
			}
			group.Go(func() {
				if err := s.play(ctx, nodes, vm, g, &options); err != nil && ctx.Err() == nil {
					options.Log(fmt.Errorf("guest %s: %w", g.name, err))
				}
			})
		}
		group.Wait()
	}
}

// play does what the guest of a virtual machine does now.
func (s *Server) play(ctx context.Context, nodes client.Client, vm *simulator.VirtualMachine, g *guest, options *GuestOptions) error {
	on := s.observe(vm, g)
	switch {
	case on != g.on:
		g.on, g.since, g.booted = on, time.Now(), false
		if !on {
			return setReady(ctx, nodes, g.name, false)
		}
	case on && !g.booted && time.Since(g.since) >= options.BootDelay:
		address := fmt.Sprintf("10.%d.%d.%d", 64+g.hash()>>16&63, g.hash()>>8&255, g.hash()&255)
		s.report(vm, address)
		if err := register(ctx, nodes, g, address); err != nil {
			return err
		}
		g.booted = true
	}
	return nil
}

// hash is a number of the guest.
func (g *guest) hash() uint32 {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(g.uuid))
	return hash.Sum32()
}

// observe reads a virtual machine, and reports whether it is powered on.
func (s *Server) observe(vm *simulator.VirtualMachine, g *guest) (on bool) {
	s.model.Map().WithLock(s.context(), vm, func() {
		on = vm.Runtime.PowerState == types.VirtualMachinePowerStatePoweredOn
		if vm.Config == nil || on == g.on {
			return
		}
		g.uuid, g.cpus, g.memoryMB = vm.Config.Uuid, vm.Config.Hardware.NumCPU, vm.Config.Hardware.MemoryMB
		for _, option := range vm.Config.ExtraConfig {
			value, _ := option.GetOptionValue().Value.(string)
			switch option.GetOptionValue().Key {
			case "guestinfo.hostname":
				g.name = value
			case "guestinfo.ignition.config.data", "guestinfo.userdata":
				g.userData = value
			}
		}
	})
	return on
}

// context is what a call of the simulator is made with that no client has made.
func (s *Server) context() *simulator.Context {
	return &simulator.Context{Context: context.Background(), Map: s.model.Map()}
}

// report writes what VMware's tools in the guest report.
func (s *Server) report(vm *simulator.VirtualMachine, address string) {
	ctx := s.context()
	ctx.Map.AtomicUpdate(ctx, vm, []types.PropertyChange{
		{Name: "guest.toolsRunningStatus", Val: string(types.VirtualMachineToolsRunningStatusGuestToolsRunning)},
		{Name: "guest.net", Val: []types.GuestNicInfo{{
			Network: Network, Connected: true, DeviceConfigId: 4000, IpAddress: []string{address, "fe80::1"},
		}}},
	})
}

// register creates the Node of a guest that has booted, as its kubelet would. A guest whose user data cannot be read does not join.
func register(ctx context.Context, nodes client.Client, g *guest, address string) error {
	if _, err := base64.StdEncoding.DecodeString(g.userData); err != nil || g.name == "" {
		return fmt.Errorf("its user data cannot be read: %w", err)
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(int64(g.cpus), resource.DecimalSI), corev1.ResourcePods: resource.MustParse("110"),
		corev1.ResourceMemory: *resource.NewQuantity(int64(g.memoryMB)<<20, resource.BinarySI),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: g.name, Annotations: map[string]string{annotationFake: "fake"},
			Labels: map[string]string{corev1.LabelHostname: g.name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
		},
		Spec: corev1.NodeSpec{ProviderID: "vsphere://" + strings.ToLower(g.uuid)},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: g.name}},
			Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: metav1.Now(),
			}},
		},
	}
	err := nodes.Create(ctx, node)
	if apierrors.IsAlreadyExists(err) {
		return setReady(ctx, nodes, g.name, true)
	}
	if err != nil {
		return fmt.Errorf("registering its Node: %w", err)
	}
	return nil
}

// setReady has kwok play a Node as Ready, or as not Ready.
func setReady(ctx context.Context, nodes client.Client, name string, ready bool) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%t"}}}`, annotationReady, ready)
	if err := nodes.Patch(ctx, node, client.RawPatch("application/merge-patch+json", patch)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patching its Node: %w", err)
	}
	return nil
}
