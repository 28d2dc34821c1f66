package cluster

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// collection is all objects of one kind that belong to a pool.
type collection struct {
	what   string
	list   client.ObjectList
	object client.Object
	of     selectors
}

// selectors select objects for a list and for a deletion.
type selectors []interface {
	client.ListOption
	client.DeleteAllOfOption
}

// deleteAll deletes everything of the pool and reports whether there was anything. The namespace of its Pods stays: only
// kube-controller-manager could finish it, and that may not run.
func (w *poolWriter) deleteAll(ctx context.Context) (found bool, err error) {
	// The MachineSet goes first, lest its controller makes machines anew.
	err = w.client.Delete(ctx, &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.opts.Namespace, Name: w.opts.Name}})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("cluster: deleting the MachineSet %s: %w", w.opts.Name, err)
	}
	found = err == nil
	members := client.MatchingLabels{MachineSetLabel: w.opts.Name}
	for _, c := range []collection{
		{"machines", &machinev1beta1.MachineList{}, &machinev1beta1.Machine{}, selectors{client.InNamespace(w.opts.Namespace), members}},
		{"pods", &corev1.PodList{}, &corev1.Pod{}, selectors{client.InNamespace(w.opts.PodNamespace()), w.selected()}},
		{"nodes", &corev1.NodeList{}, &corev1.Node{}, selectors{w.selected()}},
	} {
		had, err := w.empty(ctx, c)
		if err != nil {
			return found, err
		}
		found = found || had
	}
	return found, nil
}

// empty deletes a collection, waits until nothing of it is left and reports whether there was anything. The server gives
// a request a minute, in which it may not get through with a large collection; then it is asked again.
func (w *poolWriter) empty(ctx context.Context, c collection) (had bool, err error) {
	// There is no kubelet that could end the pods.
	listed, deleted, left := []client.ListOption{}, []client.DeleteAllOfOption{client.GracePeriodSeconds(0)}, 0
	for _, option := range c.of {
		listed, deleted = append(listed, option), append(deleted, option)
	}
	err = wait.PollUntilContextCancel(ctx, 10*pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := w.client.List(ctx, c.list, listed...); err != nil {
			return false, err
		}
		if left = meta.LenList(c.list); left == 0 {
			return true, nil
		}
		had = true
		w.logf("pool %s: deleting %d %s", w.opts.Name, left, c.what)
		if err := w.client.DeleteAllOf(ctx, c.object, deleted...); err != nil && !deleteAgain(err) {
			return false, err
		}
		return false, nil
	})
	if err != nil {
		return had, fmt.Errorf("cluster: deleting the %s of the pool %s, of which %d are left: %w; do they have finalizers?",
			c.what, w.opts.Name, left, err)
	}
	return had, nil
}

// deleteAgain reports whether deleting a collection failed for a temporary reason.
func deleteAgain(err error) bool {
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsNotFound(err) ||
		apierrors.IsConflict(err) || apierrors.IsTooManyRequests(err)
}
