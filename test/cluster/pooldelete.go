package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// collection is all objects of one kind that belong to a pool.
type collection struct {
	what      string
	remaining func(ctx context.Context) (int, error)
	remove    func(ctx context.Context) error
}

// deleteAll deletes everything of the pool and reports whether there was anything. The namespace of its Pods stays: only
// kube-controller-manager could finish it, and that may not run.
func (w *poolWriter) deleteAll(ctx context.Context) (found bool, err error) {
	// The MachineSet goes first, lest its controller makes machines anew.
	err = w.api.Delete().Namespace(w.opts.Namespace).Resource("machinesets").Name(w.opts.Name).Do(ctx).Error()
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("cluster: deleting the MachineSet %s: %w", w.opts.Name, err)
	}
	found = err == nil
	for _, c := range []collection{w.machineCollection(), w.podCollection(), w.nodeCollection()} {
		had, err := w.empty(ctx, c)
		if err != nil {
			return found, err
		}
		found = found || had
	}
	return found, nil
}

func (w *poolWriter) machineCollection() collection {
	return collection{
		what: "machines",
		remaining: func(ctx context.Context) (int, error) {
			err := w.findMachines(ctx)
			return len(w.machines), err
		},
		remove: func(ctx context.Context) error {
			return w.api.Delete().Namespace(w.opts.Namespace).Resource("machines").
				Param("labelSelector", MachineSetLabel+"="+w.opts.Name).Do(ctx).Error()
		},
	}
}

func (w *poolWriter) nodeCollection() collection {
	return collection{
		what: "nodes",
		remaining: func(ctx context.Context) (int, error) {
			err := w.findNodes(ctx)
			return len(w.nodes), err
		},
		remove: func(ctx context.Context) error {
			return w.clients.CoreV1().Nodes().DeleteCollection(ctx, metav1.DeleteOptions{}, w.selected())
		},
	}
}

func (w *poolWriter) podCollection() collection {
	pods := w.clients.CoreV1().Pods(w.opts.PodNamespace())
	return collection{
		what: "pods",
		remaining: func(ctx context.Context) (int, error) {
			list, err := pods.List(ctx, w.selected())
			if err != nil {
				return 0, err
			}
			return len(list.Items), nil
		},
		remove: func(ctx context.Context) error {
			now := int64(0) // there is no kubelet that could end them
			return pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &now}, w.selected())
		},
	}
}

// selected selects the Nodes and Pods of the pool.
func (w *poolWriter) selected() metav1.ListOptions {
	set := labels.Set{PoolLabel: w.opts.Name, PoolNamespaceLabel: w.opts.Namespace}
	return metav1.ListOptions{LabelSelector: set.String()}
}

// empty deletes a collection, waits until nothing of it is left and reports whether there was anything. The server gives
// a request a minute, in which it may not get through with a large collection; then it is asked again.
func (w *poolWriter) empty(ctx context.Context, c collection) (had bool, err error) {
	ticker := time.NewTicker(10 * pollInterval)
	defer ticker.Stop()
	for {
		left, err := c.remaining(ctx)
		if err != nil || left == 0 {
			return had, err
		}
		had = true
		w.logf("pool %s: deleting %d %s", w.opts.Name, left, c.what)
		if err := c.remove(ctx); err != nil && !deleteAgain(err) {
			return had, fmt.Errorf("cluster: deleting the %s of the pool %s: %w", c.what, w.opts.Name, err)
		}
		select {
		case <-ctx.Done():
			return had, fmt.Errorf("cluster: waiting until %d %s of the pool %s are gone: %w; do they have finalizers?",
				left, c.what, w.opts.Name, ctx.Err())
		case <-ticker.C:
		}
	}
}

// deleteAgain reports whether deleting a collection failed for a temporary reason.
func deleteAgain(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err)
}
