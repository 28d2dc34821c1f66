package harness

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
)

// Autoscaler does to a pool what cluster-autoscaler does to a MachineSet, with the same requests and the permissions of examples/cluster-autoscaler:
// https://github.com/kubernetes/autoscaler/tree/cluster-autoscaler-1.36.0/cluster-autoscaler/cloudprovider/clusterapi
type Autoscaler struct {
	*Pool

	client client.Client
}

// goingAnnotation marks a Machine that is to go.
const goingAnnotation = "machine.openshift.io/delete-machine"

// Autoscaler returns an autoscaler of a pool.
func (p *Pool) Autoscaler() *Autoscaler {
	p.Helper()
	if err := grantAutoscaler(p.World); err != nil {
		p.Fatal(err)
	}
	config, err := p.Cluster.AsServiceAccount(p.Context(), cluster.MachineNamespace, "cluster-autoscaler-drover")
	if err != nil {
		p.Fatal(err)
	}
	config.QPS = -1
	return &Autoscaler{Pool: p, client: ClientFor(p.TB, config)}
}

// granting is locked while the permissions are applied: two at once would both create them.
var granting sync.Mutex

// grantAutoscaler applies the permissions that the documentation gives cluster-autoscaler.
func grantAutoscaler(w *World) error {
	granting.Lock()
	defer granting.Unlock()
	folder, err := Folder("examples/cluster-autoscaler")
	if err != nil {
		return err
	}
	if output, err := Kubectl(w.Context(), w.Cluster, nil, "apply", "-f", filepath.Join(folder, "rbac.yaml")); err != nil {
		return fmt.Errorf("granting cluster-autoscaler its permissions: %w\n%s", err, output)
	}
	return nil
}

// Size returns the size that the group aims at.
func (a *Autoscaler) Size(ctx context.Context) (int32, error) {
	scale := &autoscalingv1.Scale{}
	err := a.client.SubResource("scale").Get(ctx, &machinev1beta1.MachineSet{ObjectMeta: Meta(a.Name)}, scale)
	return scale.Spec.Replicas, err
}

// SetSize changes the size, in a patch that does not look at what it was.
func (a *Autoscaler) SetSize(ctx context.Context, size int32) error {
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, size))
	return a.client.SubResource("scale").Patch(ctx, &machinev1beta1.MachineSet{ObjectMeta: Meta(a.Name)}, patch)
}

// Increase adds to the size.
func (a *Autoscaler) Increase(ctx context.Context, by int32) error {
	size, err := a.Size(ctx)
	if err != nil {
		return err
	}
	return a.SetSize(ctx, size+by)
}

// DeleteNodes marks Machines and shrinks the group, one after another. Like the original it stops at the first error, and removes the mark if the
// group cannot be shrunk. It returns the Machines that it both marked and removed from the group's size.
func (a *Autoscaler) DeleteNodes(ctx context.Context, machines ...string) (done []string, err error) {
	for _, name := range machines {
		size, err := a.Size(ctx)
		if err != nil {
			return done, err
		}
		if err := a.mark(ctx, name, time.Now().String()); err != nil {
			return done, err
		}
		if err := a.SetSize(ctx, size-1); err != nil {
			_ = a.mark(ctx, name, "")
			return done, err
		}
		done = append(done, name)
	}
	return done, nil
}

// mark marks a Machine, or takes the mark away: a read and an update, which fails if the Machine has changed in between.
func (a *Autoscaler) mark(ctx context.Context, name, value string) error {
	machine := &machinev1beta1.Machine{}
	if err := a.client.Get(ctx, types.NamespacedName{Namespace: cluster.MachineNamespace, Name: name}, machine); err != nil {
		return err
	}
	if value == "" {
		delete(machine.Annotations, goingAnnotation)
	} else {
		if machine.Annotations == nil {
			machine.Annotations = map[string]string{}
		}
		machine.Annotations[goingAnnotation] = value
	}
	return a.client.Update(ctx, machine)
}

// Members returns the group as the autoscaler sees it, in order: providerIDs of Nodes that exist, and failed-machine-, deleting-machine- or
// pending-machine- with namespace and name. As OpenShift's autoscaler does, it takes a Machine for failed if it has an errorMessage.
func (a *Autoscaler) Members(ctx context.Context) ([]string, error) {
	set := &machinev1beta1.MachineSet{}
	if err := a.client.Get(ctx, types.NamespacedName{Namespace: cluster.MachineNamespace, Name: a.Name}, set); err != nil {
		return nil, err
	}
	var list machinev1beta1.MachineList
	err := a.client.List(ctx, &list, client.InNamespace(cluster.MachineNamespace), client.MatchingLabels(set.Spec.Selector.MatchLabels))
	if err != nil {
		return nil, err
	}
	var members []string
	for i := range list.Items {
		machine := &list.Items[i]
		switch {
		case machine.Status.ErrorMessage != nil:
			members = append(members, fmt.Sprintf("failed-machine-%s_%s", machine.Namespace, machine.Name))
		case machine.DeletionTimestamp != nil:
			members = append(members, fmt.Sprintf("deleting-machine-%s_%s", machine.Namespace, machine.Name))
		case machine.Status.NodeRef == nil:
			members = append(members, fmt.Sprintf("pending-machine-%s_%s", machine.Namespace, machine.Name))
		case machine.Spec.ProviderID != nil:
			members = append(members, *machine.Spec.ProviderID)
		}
	}
	slices.Sort(members)
	return members, nil
}
