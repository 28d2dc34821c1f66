package cluster

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/test/eventually"
)

// fieldManager owns what this package applies.
const fieldManager = "drover-sandbox"

var crdResource = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
}

// writeConfig writes the files that the components read and the kubeconfigs of their identities.
func (c *Cluster) writeConfig() error {
	for name, data := range configFiles {
		if err := WriteFile(c.layout.config(name), data); err != nil {
			return err
		}
	}
	// kube-apiserver appends to an audit log that is never rotated, but does not make it.
	audit, err := os.OpenFile(filepath.Clean(c.layout.audit()), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("cluster: making the audit log: %w", err)
	}
	if err := audit.Close(); err != nil {
		return fmt.Errorf("cluster: making the audit log: %w", err)
	}
	for name, who := range identities {
		cfg, err := c.clientConfig(who)
		if err != nil {
			return err
		}
		if err := WriteKubeconfig(cfg, c.layout.kubeconfig(name)); err != nil {
			return err
		}
		if name == "admin" {
			c.admin = cfg
		}
	}
	return nil
}

// clientConfig returns a configuration with a new client certificate.
func (c *Cluster) clientConfig(who identity) (*rest.Config, error) {
	certPEM, keyPEM, err := c.credentials.ca.client(who)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            localURL(c.state.Ports[APIServer]),
		TLSClientConfig: rest.TLSClientConfig{CAData: c.credentials.ca.pem, CertData: certPEM, KeyData: keyPEM},
		QPS:             -1,
	}, nil
}

// install brings the namespace and the CRDs to the API server and waits until the CRDs are established.
func (c *Cluster) install(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("cluster: making a client: %w", err)
	}
	namespace := corev1ac.Namespace(MachineNamespace)
	apply := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	if _, err := clients.CoreV1().Namespaces().Apply(ctx, namespace, apply); err != nil {
		return fmt.Errorf("cluster: making the namespace %s: %w", MachineNamespace, err)
	}
	folder, root := crd.Files, "."
	if c.state.MigrationCRDs {
		folder, root = crd.Migration, "migration"
	}
	names, err := InstallCRDs(ctx, c.admin, folder, root)
	if err != nil {
		return err
	}
	own, err := InstallCRDs(ctx, c.admin, crd.Files, "nodemaintenance")
	if err != nil {
		return err
	}
	c.opts.logf("CRDs established: %v", append(names, own...))
	return nil
}

// InstallCRDs applies the CustomResourceDefinitions in the *.yaml files of a folder, one per file, waits until the
// server serves them and returns their names.
func InstallCRDs(ctx context.Context, cfg *rest.Config, files embed.FS, folder string) ([]string, error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, fmt.Errorf("cluster: making a client: %w", err)
	}
	paths, err := fs.Glob(files, path.Join(folder, "*.yaml"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(fmt.Errorf("cluster: no CRDs in %s", folder), err)
	}
	var names []string
	for _, file := range paths {
		name, err := applyCRD(ctx, client, files, file)
		if err != nil {
			return nil, fmt.Errorf("cluster: installing the CRD of %s: %w", file, err)
		}
		names = append(names, name)
	}
	for _, name := range names {
		if err := waitEstablished(ctx, client, name); err != nil {
			return nil, err
		}
	}
	return names, nil
}

func applyCRD(ctx context.Context, client dynamic.Interface, files embed.FS, file string) (string, error) {
	data, err := files.ReadFile(file)
	if err != nil {
		return "", err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &object.Object); err != nil {
		return "", err
	}
	// The published files carry an empty status, which is not ours to set.
	unstructured.RemoveNestedField(object.Object, "status")
	body, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	force := true
	_, err = client.Resource(crdResource).Patch(ctx, object.GetName(), types.ApplyPatchType, body,
		metav1.PatchOptions{FieldManager: fieldManager, Force: &force})
	return object.GetName(), err
}

// waitEstablished waits until the API server answers for the resource of a CRD: the condition Established comes first,
// and a moment later the handler.
func waitEstablished(ctx context.Context, client dynamic.Interface, name string) error {
	err := eventually.Until(ctx, readyLimit, pollInterval, func() error {
		object, err := client.Resource(crdResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		spec, _, _ := unstructured.NestedMap(object.Object, "spec")
		group, _, _ := unstructured.NestedString(spec, "group")
		plural, _, _ := unstructured.NestedString(spec, "names", "plural")
		versions, _, _ := unstructured.NestedStringSlice(object.Object, "status", "storedVersions")
		if len(versions) == 0 {
			return errors.New("no version is stored yet")
		}
		served := schema.GroupVersionResource{Group: group, Version: versions[0], Resource: plural}
		_, err = client.Resource(served).List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
	if err != nil {
		return fmt.Errorf("cluster: waiting until the CRD %s is served: %w", name, err)
	}
	return nil
}

// installKwokRole gives kwok's identity what it needs and no more.
func (c *Cluster) installKwokRole(ctx context.Context) error {
	return c.grant(ctx, Kwok, identities[Kwok].user, []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/status", "pods/status"}, Verbs: []string{"patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get", "list", "watch", "delete", "patch", "update"}},
		{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
		{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"},
			Verbs: []string{"get", "list", "watch", "create", "patch", "update"},
		},
	})
}

// grant gives a user a ClusterRole of its own with some rules.
func (c *Cluster) grant(ctx context.Context, component, user string, rules []rbacv1.PolicyRule) error {
	clients, err := kubernetes.NewForConfig(c.admin)
	if err != nil {
		return fmt.Errorf("cluster: making a client: %w", err)
	}
	name := "drover-sandbox:" + component
	role := rbacv1ac.ClusterRole(name)
	for _, rule := range rules {
		role.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).WithVerbs(rule.Verbs...))
	}
	binding := rbacv1ac.ClusterRoleBinding(name).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(name)).
		WithSubjects(rbacv1ac.Subject().WithAPIGroup(rbacv1.GroupName).WithKind("User").WithName(user))
	apply := metav1.ApplyOptions{FieldManager: fieldManager, Force: true}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	_, err = clients.RbacV1().ClusterRoles().Apply(ctx, role, apply)
	if err == nil {
		_, err = clients.RbacV1().ClusterRoleBindings().Apply(ctx, binding, apply)
	}
	if err != nil {
		return fmt.Errorf("cluster: granting %s its role: %w", component, err)
	}
	return nil
}
