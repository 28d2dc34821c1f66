package cluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// writeReplicas makes the MachineSet say how many machines there are, in its spec and its status.
func (w *poolWriter) writeReplicas(ctx context.Context) error {
	replicas := w.replicas()
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := w.readSet(ctx); err != nil {
			return err
		}
		if w.set.Spec.Replicas == nil || *w.set.Spec.Replicas != replicas {
			w.set.Spec.Replicas = &replicas
			if err := w.client.Update(ctx, w.set); err != nil {
				return err
			}
		}
		status := &w.set.Status
		if status.Replicas == replicas && status.ReadyReplicas == replicas && status.ObservedGeneration == w.set.Generation {
			return nil
		}
		status.Replicas, status.FullyLabeledReplicas = replicas, replicas
		status.ReadyReplicas, status.AvailableReplicas = replicas, replicas
		status.ObservedGeneration = w.set.Generation
		return w.client.Status().Update(ctx, w.set)
	})
	if err != nil {
		return fmt.Errorf("cluster: writing the status of the MachineSet %s: %w", w.opts.Name, err)
	}
	return nil
}

// writePods makes the pods that are missing on every node.
func (w *poolWriter) writePods(ctx context.Context) error {
	namespace := w.opts.PodNamespace()
	if err := w.applyNamespace(ctx, namespace); err != nil {
		return err
	}
	// kube-controller-manager makes it too, but a moment later, or it does not run.
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
	if err := w.client.Create(ctx, account); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cluster: making the service account of the namespace %s: %w", namespace, err)
	}
	return w.each(ctx, "nodes with pods", func(ctx context.Context, index int) error {
		node := w.opts.machineName(index)
		for number := range w.opts.RunningPods {
			if err := w.client.Create(ctx, w.opts.pod(node, number)); err != nil && !apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("cluster: making pod %d on the node %s: %w", number, node, err)
			}
		}
		return nil
	})
}
