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
	//go:embed description.md
	description string
	//go:embed examples.yaml
	examples string
	//go:embed icon.svg
	icon []byte
)

// clusterServiceVersion is what the Operator Lifecycle Manager installs by.
func clusterServiceVersion(m *manifests, r release) (object, error) {
	if len(m.deployment.Spec.Template.Spec.Containers) != 1 {
		return nil, errors.New("the Deployment has not one container")
	}
	container := &m.deployment.Spec.Template.Spec.Containers[0]
	if r.image != "" {
		container.Image = r.image
	}
	// A reference and no field: the Operator Lifecycle Manager puts the value of a Subscription beside a valueFrom, which the API server refuses.
	container.Env = append(container.Env, corev1.EnvVar{Name: "LEASE_NAMESPACE", Value: "$(OPERATOR_NAMESPACE)"})
	annotations, err := csvAnnotations(container.Image, r.created)
	if err != nil {
		return nil, err
	}
	deployed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&m.deployment.Spec)
	if err != nil {
		return nil, err
	}
	unstructured.RemoveNestedField(deployed, "strategy") // empty, as nobody has written it
	owned := make([]any, 0, len(m.crds))
	for _, crd := range m.crds {
		described, err := describe(crd)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", crd.GetName(), err)
		}
		owned = append(owned, described)
	}
	spec := object{
		"displayName": "Drover", "description": description, "version": r.version, "maturity": "beta", "minKubeVersion": "1.31.0",
		"provider":    object{"name": "The Drover authors", "url": "https://github.com/drover-io/drover"},
		"maintainers": []any{object{"name": "The Drover authors", "email": "maintainers@drover.dev"}},
		"keywords":    []any{"nodes", "machines", "maintenance", "drain", "upgrade"},
		"links":       []any{object{"name": "Documentation", "url": "https://github.com/drover-io/drover/tree/main/docs"}},
		"icon":        []any{object{"base64data": base64.StdEncoding.EncodeToString(icon), "mediatype": "image/svg+xml"}},
		// Nodes are the cluster's: there is one Drover for all of them.
		"installModes": []any{
			object{"type": "OwnNamespace", "supported": false}, object{"type": "SingleNamespace", "supported": false},
			object{"type": "MultiNamespace", "supported": false}, object{"type": "AllNamespaces", "supported": true},
		},
		"install": object{"strategy": "deployment", "spec": object{
			"clusterPermissions": []any{object{"serviceAccountName": "drover", "rules": m.clusterRules}},
			"permissions":        []any{object{"serviceAccountName": "drover", "rules": m.rules}},
			"deployments":        []any{object{"name": "drover", "label": m.deployment.Labels, "spec": deployed}},
		}},
		"customresourcedefinitions": object{"owned": owned},
		"webhookdefinitions":        webhooks(m),
		"relatedImages":             []any{object{"name": "drover", "image": container.Image}},
	}
	if r.replaces != "" {
		spec["replaces"] = "drover.v" + r.replaces
	}
	return object{
		"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
		"metadata": object{
			"name": "drover.v" + r.version, "namespace": "placeholder", "annotations": annotations,
			"labels": object{
				"operatorframework.io/arch.amd64": "supported", "operatorframework.io/arch.arm64": "supported",
				"operatorframework.io/os.linux": "supported",
			},
		},
		"spec": spec,
	}, nil
}

func csvAnnotations(image, created string) (object, error) {
	var all []any
	for text := range strings.SplitSeq(examples, "\n---\n") {
		example := object{}
		if err := yaml.UnmarshalStrict([]byte(text), &example); err != nil {
			return nil, fmt.Errorf("examples.yaml: %w", err)
		}
		all = append(all, example)
	}
	samples, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	namespace, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Namespace",
		"metadata": object{"name": systemNamespace, "labels": object{"pod-security.kubernetes.io/enforce": "restricted"}},
	})
	if err != nil {
		return nil, err
	}
	annotations := object{
		"alm-examples": string(samples), "capabilities": "Deep Insights", "categories": "OpenShift Optional",
		"containerImage": image, "repository": "https://github.com/drover-io/drover", "support": "The Drover authors",
		"description": "One operator for the whole life of a node: labels and taints of pools on existing nodes, maintenance, gated upgrades.",
		"operatorframework.io/suggested-namespace":          systemNamespace,
		"operatorframework.io/suggested-namespace-template": string(namespace),
		"features.operators.openshift.io/disconnected":      "true", "features.operators.openshift.io/fips-compliant": "false",
		"features.operators.openshift.io/proxy-aware": "false", "features.operators.openshift.io/tls-profiles": "false",
		"features.operators.openshift.io/token-auth-aws": "false", "features.operators.openshift.io/token-auth-azure": "false",
		"features.operators.openshift.io/token-auth-gcp": "false",
	}
	if created != "" {
		annotations["createdAt"] = created
	}
	return annotations, nil
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

// configuration is the configuration file in a bundle. The gate of upgrades is off: a bundle has no admission policies, and without the one of
// MutexRules whoever may create them, by the roles that the Operator Lifecycle Manager makes every editor of a namespace, may run Jobs in every
// namespace.
func configuration() object {
	return object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "drover", "labels": object{"app.kubernetes.io/name": "drover"}},
		"data": object{"config.yaml": `apiVersion: config.drover.dev/v1alpha1
kind: DroverConfiguration
# Add upgrade when the roles and the policies of config/upgrade are applied: docs/install.md says why.
controllers: [metadata, maintenance, maintenance-kubevirt]
namespace: openshift-machine-api
webhook:
  # The Operator Lifecycle Manager makes the certificate.
  certificates: Files
`},
	}
}
