package certs

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The label by which Drover knows a Secret that it may replace.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	managedBy      = "drover"
)

// store writes a bundle. Before is the Secret as it was read; when another replica has written in between, this fails, and what the other
// one wrote counts.
func (k *Keeper) store(ctx context.Context, before *corev1.Secret, b *bundle) error {
	data, err := b.encode()
	if err != nil {
		return err
	}
	if before == nil {
		_, err = k.secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: k.options.Namespace, Name: k.options.Secret,
				Labels: map[string]string{"app.kubernetes.io/name": "drover", labelManagedBy: managedBy},
			},
			Type: corev1.SecretTypeTLS, Data: data,
		}, metav1.CreateOptions{FieldManager: fieldManager})
	} else {
		changed := before.DeepCopy()
		if changed.Labels == nil {
			changed.Labels = map[string]string{}
		}
		changed.Labels[labelManagedBy] = managedBy
		changed.Data = data
		// The resourceVersion in it is the guard.
		_, err = k.secrets.Update(ctx, changed, metav1.UpdateOptions{FieldManager: fieldManager})
	}
	if err != nil {
		return fmt.Errorf("writing Secret %s/%s: %w", k.options.Namespace, k.options.Secret, err)
	}
	return nil
}
