package nodelink

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/undecodable"
)

// Indexes of Nodes and Machines in the cache.
const (
	indexID = "nodelink.providerID"
	indexIP = "nodelink.internalIP"
)

// Index adds the indexes that a Finder needs to the cache. A Finder also needs the index of lookup.Index. Call it before the informers start.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	nodes := map[string]func(*corev1.Node) []string{
		indexID: func(node *corev1.Node) []string { return some(node.Spec.ProviderID) },
		indexIP: func(node *corev1.Node) []string { return InternalIPs(node.Status.Addresses) },
	}
	machines := map[string]func(*machinev1beta1.Machine) []string{
		indexID: func(machine *machinev1beta1.Machine) []string { return some(ProviderID(machine)) },
		indexIP: func(machine *machinev1beta1.Machine) []string { return InternalIPs(machine.Status.Addresses) },
	}
	return errors.Join(indexAll(ctx, indexer, &corev1.Node{}, nodes), indexAll(ctx, indexer, &machinev1beta1.Machine{}, machines))
}

func indexAll[T client.Object](ctx context.Context, indexer client.FieldIndexer, kind T, fields map[string]func(T) []string) error {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		keys := fields[field]
		err := indexer.IndexField(ctx, kind, field, func(object client.Object) []string {
			if typed, ok := object.(T); ok {
				return keys(typed)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing %T by %s: %w", kind, field, err)
		}
	}
	return nil
}

func some(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// Finder finds links in a cache with the indexes of Index and of lookup.Index.
type Finder struct{ client.Reader }

// NodeOf returns the Node of a Machine. Referred is the Node that its nodeRef names, nil if there is none of that name.
func (f Finder) NodeOf(ctx context.Context, machine *machinev1beta1.Machine, referred *corev1.Node) (Link, error) {
	c := Candidates{Linked: map[types.UID]*corev1.Node{}}
	for _, step := range []func() error{
		func() error { return f.recorded(ctx, machine, referred, &c) },
		func() error { return f.byProviderID(ctx, machine, &c) },
		func() error { return f.linkTo(ctx, machine, c.ByID, &c) },
	} {
		if err := step(); err != nil {
			return Link{}, err
		}
	}
	if c.needsAddresses(machine) {
		if err := errors.Join(f.byAddress(ctx, machine, &c), f.linkTo(ctx, machine, c.ByIP, &c)); err != nil {
			return Link{}, err
		}
	}
	c.Others = slices.DeleteFunc(c.Others, func(other *machinev1beta1.Machine) bool {
		return other.UID == machine.UID || other.DeletionTimestamp != nil
	})
	if err := f.linkOthers(ctx, &c); err != nil {
		return Link{}, err
	}
	return Decide(machine, c), nil
}

// recorded adds the Node that the Machine's nodeRef names by its UID as well.
func (f Finder) recorded(ctx context.Context, machine *machinev1beta1.Machine, referred *corev1.Node, c *Candidates) error {
	if ref := machine.Status.NodeRef; ref == nil || referred == nil || referred.UID != ref.UID {
		return nil
	}
	var err error
	c.Recorded = referred
	c.Owners, err = f.byID(ctx, referred)
	return err
}

// byProviderID adds the Nodes and the Machines with the Machine's providerID.
func (f Finder) byProviderID(ctx context.Context, machine *machinev1beta1.Machine, c *Candidates) error {
	id := ProviderID(machine)
	if id == "" {
		return nil
	}
	var err error
	if c.ByID, err = f.nodes(ctx, indexID, id); err != nil {
		return err
	}
	c.Others, err = f.machines(ctx, indexID, id)
	return err
}

// linkTo adds the other Machines whose nodeRef names one of the Nodes.
func (f Finder) linkTo(ctx context.Context, machine *machinev1beta1.Machine, nodes []*corev1.Node, c *Candidates) error {
	for _, node := range nodes {
		machines, err := lookup.MachinesOfNode(ctx, f, node.Name)
		if err == nil {
			err = undecodable.CheckAll(machines)
		}
		if err != nil {
			return err
		}
		for i := range machines {
			if other := &machines[i]; other.UID != machine.UID && other.Status.NodeRef.UID == node.UID {
				c.Linked[other.UID] = node
			}
		}
	}
	return nil
}

// linkOthers adds the Nodes that exist of the Machines in Others.
func (f Finder) linkOthers(ctx context.Context, c *Candidates) error {
	for _, other := range c.Others {
		ref := other.Status.NodeRef
		if ref == nil || c.Linked[other.UID] != nil {
			continue
		}
		node := &corev1.Node{}
		switch err := f.Get(ctx, types.NamespacedName{Name: ref.Name}, node); {
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("reading Node %s: %w", ref.Name, err)
		case err == nil && node.UID == ref.UID:
			c.Linked[other.UID] = node
		}
	}
	return nil
}

// byAddress adds the Nodes and the Machines with internal addresses of the Machine.
func (f Finder) byAddress(ctx context.Context, machine *machinev1beta1.Machine, c *Candidates) error {
	nodes, machines := map[types.UID]bool{}, map[types.UID]bool{}
	for _, other := range c.Others {
		machines[other.UID] = true
	}
	for _, ip := range InternalIPs(machine.Status.Addresses) {
		found, err := f.nodes(ctx, indexIP, ip)
		if err != nil {
			return err
		}
		for _, node := range found {
			if !nodes[node.UID] {
				nodes[node.UID] = true
				c.ByIP = append(c.ByIP, node)
				owners, err := f.byID(ctx, node)
				if err != nil {
					return err
				}
				c.Owners = append(c.Owners, owners...)
			}
		}
		others, err := f.machines(ctx, indexIP, ip)
		if err != nil {
			return err
		}
		for _, other := range others {
			if !machines[other.UID] {
				machines[other.UID] = true
				c.Others = append(c.Others, other)
			}
		}
	}
	return nil
}

// Foreign reports whether a Node that a Machine's nodeRef names is not the Machine's by its providerID.
func (f Finder) Foreign(ctx context.Context, machine *machinev1beta1.Machine, node *corev1.Node) (bool, error) {
	others, err := f.byID(ctx, node)
	if err != nil {
		return false, err
	}
	return Foreign(machine, node, others), nil
}

// byID returns the Machines with the providerID of a Node.
func (f Finder) byID(ctx context.Context, node *corev1.Node) ([]*machinev1beta1.Machine, error) {
	if node.Spec.ProviderID == "" {
		return nil, nil
	}
	return f.machines(ctx, indexID, node.Spec.ProviderID)
}

// MachinesOf returns the Machines that a Node may belong to, which have to be reconciled when it changes.
func (f Finder) MachinesOf(ctx context.Context, node *corev1.Node) ([]*machinev1beta1.Machine, error) {
	all, err := f.byID(ctx, node)
	if err != nil {
		return nil, err
	}
	for _, ip := range InternalIPs(node.Status.Addresses) {
		found, err := f.machines(ctx, indexIP, ip)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// Joining returns a Machine, as namespace/name, that a Node may be about to be linked to; empty for none. The Machine has no Node yet, and has the
// providerID or an address of this one.
func (f Finder) Joining(ctx context.Context, node *corev1.Node) (machine string, err error) {
	all, err := f.MachinesOf(ctx, node)
	if err != nil {
		return "", err
	}
	for _, m := range all {
		if m.Status.NodeRef == nil && m.DeletionTimestamp == nil {
			return m.Namespace + "/" + m.Name, nil
		}
	}
	return "", nil
}

func (f Finder) nodes(ctx context.Context, index, key string) ([]*corev1.Node, error) {
	var list corev1.NodeList
	if err := f.List(ctx, &list, client.MatchingFields{index: key}); err != nil {
		return nil, fmt.Errorf("listing the Nodes with %s: %w", key, err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	return nodes, nil
}

func (f Finder) machines(ctx context.Context, index, key string) ([]*machinev1beta1.Machine, error) {
	var list machinev1beta1.MachineList
	if err := f.List(ctx, &list, client.MatchingFields{index: key}); err != nil {
		return nil, fmt.Errorf("listing the Machines with %s: %w", key, err)
	}
	if err := undecodable.CheckAll(list.Items); err != nil {
		return nil, err
	}
	machines := make([]*machinev1beta1.Machine, len(list.Items))
	for i := range list.Items {
		machines[i] = &list.Items[i]
	}
	return machines, nil
}
