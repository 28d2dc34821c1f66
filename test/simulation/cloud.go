package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/provider"
)

// cloudKind is the kind of spec.providerSpec.value that the simulated provider serves.
var cloudKind = schema.GroupKind{Group: "cloud.example.com", Kind: "CloudSpec"}

// instance is what the provider has made.
type instance struct {
	machine  types.UID
	name, id string
	address  string
	// booted: it runs a kubelet. dead: its kubelet never reports again. ending: its deletion has been requested.
	booted, dead, ending bool
	// late instances register without a providerID, which comes later.
	late bool
}

// cloud is the provider's own world. Only the scheduler's goroutine touches it.
type cloud struct {
	world     *world
	instances map[types.UID]*instance
	made      int
	// healthy clouds do what they are asked.
	healthy bool
}

// actuator is how a process reaches the cloud.
type actuator struct{ process *process }

func (a *actuator) ask(ctx context.Context, verb string, mutates bool, machine *machinev1beta1.Machine, act func() error) error {
	return a.process.gates.pass(ctx, &call{
		controller: "machine", pass: passOf(ctx), item: "Machine " + keyOf(machine), what: "instance " + verb, mutates: mutates, act: act,
	})
}

// Create makes an instance, or finds it.
func (a *actuator) Create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	var made *provider.Instance
	err := a.ask(ctx, "create", true, machine, func() error {
		c := a.process.world.cloud
		if !c.healthy && c.world.chance(12) {
			return c.refusal("create")
		}
		found := c.instances[machine.UID]
		if found == nil || a.process.forgetfulProvider {
			found = c.boot(machine)
		}
		made = found.seen()
		if !c.healthy && c.world.chance(10) {
			return fmt.Errorf("simulated: the provider's answer was lost")
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return made, nil
}

// Get looks for an instance.
func (a *actuator) Get(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	var seen *provider.Instance
	err := a.ask(ctx, "get", false, machine, func() error {
		c := a.process.world.cloud
		if !c.healthy && c.world.chance(20) {
			return c.refusal("get")
		}
		if found := c.instances[machine.UID]; found != nil && (machine.Spec.ProviderID != nil || !a.process.forgetfulProvider) {
			seen = found.seen()
		}
		return nil
	})
	return seen, err
}

// Delete asks for an instance's end.
func (a *actuator) Delete(ctx context.Context, machine *machinev1beta1.Machine) error {
	return a.ask(ctx, "delete", true, machine, func() error {
		c := a.process.world.cloud
		if !c.healthy && c.world.chance(10) {
			return c.refusal("delete")
		}
		found := c.instances[machine.UID]
		if found == nil || found.ending {
			return nil
		}
		found.ending = true
		c.world.history.note("cloud        the instance of %s is ending", machine.Name)
		wait := time.Duration(0)
		if c.world.chance(2) {
			wait = c.world.upTo(90 * time.Second)
		}
		c.world.after(wait, func() { c.end(found) })
		return nil
	})
}

func (c *cloud) refusal(verb string) error {
	switch c.world.random.IntN(3) {
	case 0:
		return provider.RequeueAfter(c.world.upTo(20*time.Second), "simulated: the provider takes its time for "+verb)
	case 1:
		return provider.InsufficientResources("simulated: no capacity for %s", verb)
	}
	return fmt.Errorf("simulated: the provider cannot %s", verb)
}

// boot makes an instance, which becomes a Node after a while.
func (c *cloud) boot(machine *machinev1beta1.Machine) *instance {
	c.made++
	i := &instance{
		machine: machine.UID, name: machine.Name, id: fmt.Sprintf("cloud:///%s-%d", machine.Name, c.made),
		address: fmt.Sprintf("10.0.%d.%d", c.made/250, c.made%250+1), late: c.world.chance(4),
	}
	if before := c.instances[machine.UID]; before != nil {
		_ = c.world.fault("a second instance is made for Machine %s", machine.Name)
	}
	c.instances[machine.UID] = i
	if there := c.world.server.get(machineKind, keyOf(machine)); there == nil || there.GetUID() != machine.UID {
		_ = c.world.fault("an instance is made for Machine %s, which is gone", machine.Name)
	}
	c.world.history.note("cloud        an instance of %s is made: %s", machine.Name, i.id)
	if !c.healthy && c.world.chance(25) {
		return i // it never boots
	}
	c.world.after(5*time.Second+c.world.upTo(90*time.Second), func() { c.world.register(i) })
	return i
}

// end is when an instance is gone.
func (c *cloud) end(i *instance) {
	if c.instances[i.machine] != i {
		return
	}
	delete(c.instances, i.machine)
	c.world.history.note("cloud        the instance of %s is gone: %s", i.name, i.id)
	if !i.ending && !c.recorded(i) {
		// The deletion was not requested, so the cloud's own controller has to delete its Node.
		c.world.after(time.Minute, func() {
			if node := c.world.node(i); node != nil {
				must(c.world.server.delete(request{who: "cloud"}, nodeKind, node.Name, guards{}, nil))
			}
		})
	}
	i.ending, i.dead = true, true
	c.world.after(40*time.Second, func() { c.world.ready(i, corev1.ConditionUnknown) })
}

// recorded reports whether a Machine names an instance.
func (c *cloud) recorded(i *instance) bool {
	machines := typed[*machinev1beta1.Machine](c.world.server.all(machineKind))
	return slices.ContainsFunc(machines, func(m *machinev1beta1.Machine) bool { return nodelink.ProviderID(m) == i.id })
}

// seen is an instance as the provider reports it.
func (i *instance) seen() *provider.Instance {
	out := &provider.Instance{
		ProviderID: i.id, State: provider.Running, Type: "m5", Region: "eu", Zone: "eu-1",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: i.address}},
		Status:    &runtime.RawExtension{Raw: []byte(`{"instanceState":"Running"}`)},
	}
	switch {
	case i.ending:
		out.State, out.Status = provider.Terminating, &runtime.RawExtension{Raw: []byte(`{"instanceState":"Terminating"}`)}
	case !i.booted:
		out.State, out.Status = provider.Pending, &runtime.RawExtension{Raw: []byte(`{"instanceState":"Pending"}`)}
	}
	if !i.booted || i.ending {
		out.LookAgain = 15 * time.Second
	}
	return out
}

// sorted lists the instances by name.
func (c *cloud) sorted() []*instance {
	all := slices.Collect(maps.Values(c.instances))
	slices.SortFunc(all, func(a, b *instance) int { return cmp.Compare(a.id, b.id) })
	return all
}
