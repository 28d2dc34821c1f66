package main

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

type object = map[string]any

var (
	//go:embed base.yaml
	base []byte
	//go:embed description.md
	description string
	//go:embed examples.yaml
	examples string
	//go:embed icon.svg
	icon []byte
)

// clusterServiceVersion completes base.yaml with what a release, the manifests and the CRDs say.
func clusterServiceVersion(m *manifests, r release) (*unstructured.Unstructured, error) {
	if len(m.deployment.Spec.Template.Spec.Containers) != 1 {
		return nil, errors.New("the Deployment has not one container")
	}
	container := &m.deployment.Spec.Template.Spec.Containers[0]
	if r.image != "" {
		container.Image = r.image
	}
	// A reference and no field: the Operator Lifecycle Manager puts the value of a Subscription beside a valueFrom, which the API server refuses.
	container.Env = append(container.Env, corev1.EnvVar{Name: "LEASE_NAMESPACE", Value: "$(OPERATOR_NAMESPACE)"})
	deployed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m.deployment.Spec)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(deployed, "strategy") // the field is empty
	owned := make([]any, 0, len(m.crds))
	for _, crd := range m.crds {
		described, err := describe(crd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crd.GetName(), err)
		}
		owned = append(owned, described)
	}
	samples, err := samples()
	if err != nil {
		return nil, err
	}
	csv := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(base, &csv.Object); err != nil {
		return nil, fmt.Errorf("base.yaml: %w", err)
	}
	csv.SetName("drover.v" + r.version)
	annotations := csv.GetAnnotations()
	annotations["alm-examples"], annotations["containerImage"] = samples, container.Image
	if r.created != "" {
		annotations["createdAt"] = r.created
	}
	csv.SetAnnotations(annotations)
	spec, ok := csv.Object["spec"].(object)
	if !ok {
		return nil, errors.New("base.yaml has no spec")
	}
	spec["version"], spec["description"] = r.version, description
	spec["icon"] = []any{object{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}}
	spec["install"] = object{"strategy": "deployment", "spec": object{
		"clusterPermissions": []any{object{"serviceAccountName": "drover", "rules": m.clusterRules}},
		"permissions":        []any{object{"serviceAccountName": "drover", "rules": m.rules}},
		"deployments":        []any{object{"name": "drover", "label": m.deployment.Labels, "spec": deployed}},
	}}
	spec["customresourcedefinitions"], spec["webhookdefinitions"] = object{"owned": owned}, webhooks(m)
	spec["relatedImages"] = []any{object{"name": "drover", "image": container.Image}}
	if r.replaces != "" {
		spec["replaces"] = "drover.v" + r.replaces
	}
	return csv, nil
}

// samples are the examples as JSON.
func samples() (string, error) {
	var all []any
	for text := range strings.SplitSeq(examples, "\n---\n") {
		example := object{}
		if err := yaml.UnmarshalStrict([]byte(text), &example); err != nil {
			return "", fmt.Errorf("examples.yaml: %w", err)
		}
		all = append(all, example)
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return string(text), err
}

// webhooks are the webhooks of NodeMaintenance. Here they have no conditions, so that they are asked about each update: the format has none.
func webhooks(m *manifests) []any {
	all := make([]any, 0, len(m.webhooks.Webhooks))
	for i := range m.webhooks.Webhooks {
		w := &m.webhooks.Webhooks[i]
		all = append(all, object{
			"type": "ValidatingAdmissionWebhook", "generateName": w.Name, "deploymentName": "drover",
			"containerPort": 443, "targetPort": intstr.FromString("webhook"), "webhookPath": w.ClientConfig.Service.Path,
			"admissionReviewVersions": w.AdmissionReviewVersions, "failurePolicy": w.FailurePolicy, "matchPolicy": w.MatchPolicy,
			"sideEffects": w.SideEffects, "timeoutSeconds": w.TimeoutSeconds, "rules": w.Rules,
		})
	}
	return all
}
