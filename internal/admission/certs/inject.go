package certs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// operation is one of a JSON Patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// injection puts what is trusted into every webhook that has something else; nil when none has. The list is addressed by position, so each
// change is guarded by the webhook's name.
func injection(configuration *admissionregistrationv1.ValidatingWebhookConfiguration, trusted []byte) []operation {
	var patch []operation
	for i := range configuration.Webhooks {
		webhook := &configuration.Webhooks[i]
		if bytes.Equal(webhook.ClientConfig.CABundle, trusted) {
			continue
		}
		at := fmt.Sprintf("/webhooks/%d", i)
		patch = append(patch, operation{"test", at + "/name", webhook.Name}, operation{"add", at + "/clientConfig/caBundle", trusted})
	}
	return patch
}

// inject tells the API server whom to trust.
func (k *Keeper) inject(ctx context.Context, configuration *admissionregistrationv1.ValidatingWebhookConfiguration, trusted []byte) error {
	operations := injection(configuration, trusted)
	if operations == nil || configuration.ResourceVersion == k.injected {
		// The watch is behind our own patch: what it shows next has it.
		return nil
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("making a patch: %w", err)
	}
	_, err = k.configurations.Patch(ctx, configuration.Name, types.JSONPatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("putting the certificate authority into ValidatingWebhookConfiguration %s: %w", configuration.Name, err)
	}
	k.injected = configuration.ResourceVersion
	log.FromContext(ctx).Info("certificate authority put into the webhook configuration", "configuration", configuration.Name,
		"webhooks", len(operations)/2)
	return nil
}
