package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const (
	// systemNamespace is where config/ installs Drover. With a bundle the user chooses the namespace.
	systemNamespace = "drover-system"
	// leaseNamespace is where config/ has the leases of nodes. In a bundle they are in the namespace of Drover.
	leaseNamespace = "medik8s-leases"
)

// granted are the folders and files whose roles a bundle grants. The roles of the capability machines are missing, since OpenShift has its
// machine-api-operator. The roles of upgrade are missing, because upgrade is off until its policies are there. The roles for the webhook's
// certificate are missing, because the Operator Lifecycle Manager makes the certificate.
var granted = []string{"rbac/*.yaml", "metadata/*.yaml", "nodegroups/*.yaml", "maintenance/*.yaml", "maintenance/force/*.yaml", "webhook/role.yaml"}

// manifests are what config/ has for a bundle.
type manifests struct {
	deployment *appsv1.Deployment
	webhooks   *admissionregistrationv1.ValidatingWebhookConfiguration
	// clusterRules and rules are what Drover may do everywhere, and in its own namespace.
	clusterRules, rules []rbacv1.PolicyRule
	crds                []*unstructured.Unstructured
	others              []*unstructured.Unstructured
}

// load reads them.
func load() (*manifests, error) {
	m := &manifests{deployment: &appsv1.Deployment{}, webhooks: &admissionregistrationv1.ValidatingWebhookConfiguration{}}
	if err := read("config/manager/deployment.yaml", m.deployment); err != nil {
		return nil, err
	}
	if err := read("config/webhook/configuration.yaml", m.webhooks); err != nil {
		return nil, err
	}
	addCRD := func(object *unstructured.Unstructured) error {
		m.crds = append(m.crds, object)
		return nil
	}
	addOther := func(object *unstructured.Unstructured) error {
		object.SetNamespace("")
		m.others = append(m.others, object)
		return nil
	}
	return m, errors.Join(
		each(m.grant, granted...), each(addCRD, "crd/nodegroup/*.yaml", "crd/nodemaintenance/*.yaml", "crd/mutex/*.yaml"),
		each(addOther, "manager/service.yaml", "manager/disruption_budget.yaml", "rbac/metrics_reader.yaml"))
}

// grant collects what a role allows. A bundle has no role for a namespace other than all namespaces and the operator's own. What Drover may do to
// Machines, it may therefore do in every namespace. The leases of nodes are in the operator's own namespace: permission for leases everywhere would
// include the leader election leases of other programs.
func (m *manifests) grant(object *unstructured.Unstructured) error {
	if object.GetName() == "drover-metrics-reader" {
		return nil // it is for others
	}
	role := &rbacv1.Role{}
	switch object.GetKind() {
	case "ClusterRole", "Role":
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			return err
		}
	default:
		return nil
	}
	rules := &m.clusterRules
	if object.GetNamespace() == systemNamespace || object.GetNamespace() == leaseNamespace {
		rules = &m.rules
	}
	for _, rule := range role.Rules {
		if !slices.ContainsFunc(*rules, func(granted rbacv1.PolicyRule) bool { return granted.String() == rule.String() }) {
			*rules = append(*rules, rule)
		}
	}
	return nil
}

// beside returns the objects of a bundle other than the ClusterServiceVersion, by file.
func (m *manifests) beside() map[string]any {
	files := map[string]any{}
	for _, crd := range m.crds {
		group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
		plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
		files[group+"_"+plural+".yaml"] = crd.Object
	}
	for _, other := range m.others {
		group := strings.ReplaceAll(other.GetAPIVersion(), "/", "_")
		files[fmt.Sprintf("%s_%s_%s.yaml", other.GetName(), group, strings.ToLower(other.GetKind()))] = other.Object
	}
	return files
}

// each calls back with every object of some files of config/.
func each(visit func(*unstructured.Unstructured) error, patterns ...string) error {
	var paths []string
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join("config", filepath.FromSlash(pattern)))
		if err != nil || len(found) == 0 {
			return errors.Join(fmt.Errorf("nothing at config/%s", pattern), err)
		}
		paths = append(paths, found...)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &object.Object); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			if len(object.Object) == 0 || object.GetKind() == "Kustomization" {
				continue
			}
			if err := visit(object); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	return nil
}

func read(path string, into any) error {
	text, err := os.ReadFile(path) //nolint:gosec // a file of the repository
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
