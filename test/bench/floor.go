package main

import (
	"context"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// floorWriters is how many writers send at once; more make two cores no faster.
const floorWriters = 16

// patches is what one Machine needs: the very bytes that the operator would send.
type patches struct {
	name          string
	machine, node []byte
}

// prepare computes all patches from the objects as they stand. It is not part of what is timed: the floor decides nothing.
func (b *stage) prepare(ctx context.Context) ([]patches, error) {
	var machines machinev1beta1.MachineList
	var nodes corev1.NodeList
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	for _, p := range b.changed {
		set := &machinev1beta1.MachineSet{}
		if err := b.Client.Get(ctx, b.set(p), set); err != nil {
			return nil, err
		}
		objects.Sets = append(objects.Sets, set)
	}
	for _, list := range []client.ObjectList{&machines, &nodes} {
		if err := b.Client.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for i := range nodes.Items {
		objects.Nodes[nodes.Items[i].Name] = &nodes.Items[i]
	}
	for i := range machines.Items {
		objects.Machines = append(objects.Machines, &machines.Items[i])
	}
	survey := plan.SurveyOf(objects, ownership.DefaultProtected(), time.Now())
	all := make([]patches, 0, len(survey.Items))
	for _, item := range survey.Items {
		if !item.Decision.Machine.Write || !item.Decision.Node.Write {
			return nil, fmt.Errorf("%s has nothing to be written", item.Machine.Name)
		}
		machine, err := plan.MachinePatch(item.Machine, item.Decision.Machine)
		if err != nil {
			return nil, err
		}
		node, err := plan.NodePatch(item.Node, item.Decision.Node)
		if err != nil {
			return nil, err
		}
		all = append(all, patches{item.Machine.Name, machine, node})
	}
	return all, nil
}

// floor changes the MachineSets and sends all patches as fast as it can.
func (b *stage) floor(ctx context.Context) (rollout, error) {
	if _, err := b.declare(ctx, b.pools...); err != nil {
		return rollout{}, err
	}
	all, err := b.prepare(ctx)
	if err != nil {
		return rollout{}, err
	}
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return rollout{}, err
	}
	begun := time.Now()
	work := make(chan patches)
	group, sending := errgroup.WithContext(ctx)
	for range floorWriters {
		group.Go(func() error {
			for item := range work {
				if err := b.send(sending, item); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		defer close(work)
		for _, item := range all {
			select {
			case work <- item:
			case <-sending.Done():
				return sending.Err()
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return rollout{}, err
	}
	return b.read(ctx, mark, begun)
}

// send makes the two writes of one Machine, as the operator does: the answer is metadata alone.
func (b *stage) send(ctx context.Context, item patches) error {
	machine := partial(machinev1beta1.GroupVersion.String(), "Machine", b.namespace(), item.name)
	if err := b.writer.Patch(ctx, machine, client.RawPatch(types.MergePatchType, item.machine)); err != nil {
		return fmt.Errorf("patching Machine %s: %w", item.name, err)
	}
	node := partial("v1", "Node", "", item.name)
	if err := b.writer.Patch(ctx, node, client.RawPatch(types.JSONPatchType, item.node)); err != nil {
		return fmt.Errorf("patching Node %s: %w", item.name, err)
	}
	return nil
}

func partial(version, kind, namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: version, Kind: kind}}
	object.Namespace, object.Name = namespace, name
	return object
}
