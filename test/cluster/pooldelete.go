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

// collection is all objects of one kind that belong to a pool, selected by namespace, if they have one, and by labels.
type collection struct {
	what      string
	list      client.ObjectList
	object    client.Object
	namespace client.InNamespace
	labels    client.MatchingLabels
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
	machines, pods := client.InNamespace(w.opts.Namespace), client.InNamespace(w.opts.PodNamespace())
	for _, c := range []collection{
		{"machines", &machinev1beta1.MachineList{}, &machinev1beta1.Machine{}, machines, client.MatchingLabels{MachineSetLabel: w.opts.Name}},
		{"pods", &corev1.PodList{}, &corev1.Pod{}, pods, w.selected()},
		{"nodes", &corev1.NodeList{}, &corev1.Node{}, "", w.selected()},
	} {
		had, err := w.empty(ctx, c)
		if err != nil {
			return found, err
		}
		found = found || had
	}
	return found, nil
}

// empty deletes a collection, waits until nothing of it is left and reports whether there was anything. The server gives a request a minute. If that
// is not enough for a large collection, empty sends the request again.
func (w *poolWriter) empty(ctx context.Context, c collection) (had bool, err error) {
	left := 0
	err = wait.PollUntilContextCancel(ctx, 10*pollInterval, true, func(ctx context.Context) (bool, error) {
		if err := w.client.List(ctx, c.list, c.namespace, c.labels); err != nil {
			return false, err
		}
		if left = meta.LenList(c.list); left == 0 {
			return true, nil
		}
		had = true
		w.logf("pool %s: deleting %d %s", w.opts.Name, left, c.what)
		// There is no kubelet that could end the pods.
		if err := w.client.DeleteAllOf(ctx, c.object, c.namespace, c.labels, client.GracePeriodSeconds(0)); err != nil && !deleteAgain(err) {
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
