package cli

import (
	"context"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// listed is one kind of object that the plugin lists.
type listed struct {
	resource string
	empty    func() client.ObjectList
	// namespaced kinds are listed in one namespace or in all.
	namespaced bool
}

var (
	machineSets = listed{"machinesets", func() client.ObjectList { return &machinev1beta1.MachineSetList{} }, true}
	machines    = listed{"machines", func() client.ObjectList { return &machinev1beta1.MachineList{} }, true}
	nodes       = listed{"nodes", func() client.ObjectList { return &corev1.NodeList{} }, false}
)

// fetch lists everything that a survey needs, the three kinds side by side.
func fetch(ctx context.Context, c client.Client, namespace string) (plan.Objects, error) {
	objects := plan.Objects{Nodes: map[string]*corev1.Node{}}
	var failure error
	var group errgroup.Group
	group.Go(func() error {
		objects.Sets, objects.Machines, failure = declaring(ctx, c, namespace)
		return nil
	})
	group.Go(func() error {
		all, err := list[*corev1.Node](ctx, c, nodes, "")
		for _, node := range all {
			objects.Nodes[node.Name] = node
		}
		return err
	})
	err := group.Wait()
	// Where the Machine API is missing, that is what has to be said.
	if failure != nil {
		err = failure
	}
	return objects, err
}

// declaring lists the objects that say what Nodes are to carry.
func declaring(ctx context.Context, c client.Client, namespace string) (sets []*machinev1beta1.MachineSet, all []*machinev1beta1.Machine, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		sets, err = list[*machinev1beta1.MachineSet](ctx, c, machineSets, namespace)
		return err
	})
	group.Go(func() (err error) {
		all, err = list[*machinev1beta1.Machine](ctx, c, machines, namespace)
		return err
	})
	return sets, all, group.Wait()
}

// nodeNames lists the names of all Nodes for a message; none when they cannot be listed.
func nodeNames(ctx context.Context, c client.Client) []string {
	all, err := list[*corev1.Node](ctx, c, nodes, "")
	if err != nil {
		return nil
	}
	names := make([]string, 0, len(all))
	for _, node := range all {
		names = append(names, node.Name)
	}
	return names
}

// list reads all objects of a kind in pages, so that a large cluster answers in many small pieces. When a page expires on the way
// the pager asks for everything at once.
func list[T client.Object](ctx context.Context, c client.Client, kind listed, namespace string) ([]T, error) {
	if !kind.namespaced {
		namespace = ""
	}
	var all []T
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		page := kind.empty()
		err := c.List(ctx, page, client.InNamespace(namespace), &client.ListOptions{Raw: &options, Limit: options.Limit, Continue: options.Continue})
		return page, err
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(object runtime.Object) error {
		if item, ok := object.(T); ok {
			item.SetManagedFields(nil)
			all = append(all, item)
		}
		return nil
	})
	if err != nil {
		return nil, explained(err, "listing "+kind.resource, kind.resource)
	}
	return slices.Clip(all), nil
}
