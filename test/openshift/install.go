package openshift

import (
	"context"
	"embed"
	"errors"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRDs holds the CustomResourceDefinitions of MachineConfig, MachineConfigPool and ClusterVersion as a production cluster has them, below the
// folder "crds". They are copies from the module github.com/openshift/api; a test compares them.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// DefaultVersion is the version of a cluster that Install makes when none is named.
const DefaultVersion = "4.17.2"

// NodeRoleLabel returns the label of the Nodes of a role.
func NodeRoleLabel(role string) string { return "node-role.kubernetes.io/" + role }

// NewPool returns the MachineConfigPool of a role as the documentation of OpenShift recommends it: a custom pool selects the Nodes with the
// label of its role, and the MachineConfigs of its role and of workers.
func NewPool(role string) *mcfgv1.MachineConfigPool {
	configs := &metav1.LabelSelector{MatchLabels: map[string]string{RoleLabel: role}}
	if role != PoolMaster && role != PoolWorker {
		configs = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: RoleLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{PoolWorker, role},
		}}}
	}
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: role, Labels: map[string]string{"pools.operator.machineconfiguration.openshift.io/" + role: ""}},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: configs,
			NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{NodeRoleLabel(role): ""}},
		},
	}
}

// NewConfig returns a MachineConfig for a role.
func NewConfig(name, role string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{RoleLabel: role}}, Spec: NewConfigSpec(""),
	}
}

// NewConfigSpec returns the spec of a MachineConfig that changes nothing but the image of the operating system. Its lists must not be null.
func NewConfigSpec(image string) mcfgv1.MachineConfigSpec {
	return mcfgv1.MachineConfigSpec{
		OSImageURL: image, Config: runtime.RawExtension{Raw: []byte(`{"ignition":{"version":"3.4.0"}}`)},
		KernelArguments: []string{}, Extensions: []string{},
	}
}

// NewClusterVersion returns the ClusterVersion of a cluster of a version.
func NewClusterVersion(version string) *configv1.ClusterVersion {
	return &configv1.ClusterVersion{
		ObjectMeta: metav1.ObjectMeta{Name: ClusterVersionName},
		Spec: configv1.ClusterVersionSpec{
			ClusterID: "00000000-0000-4000-8000-000000000000", Channel: "stable-4.17", DesiredUpdate: &configv1.Update{Version: version},
		},
	}
}

// Install creates the pools master, worker and the custom ones, their MachineConfigs, and the ClusterVersion. Objects that exist stay as they
// are. The CRDs must exist. An empty version is DefaultVersion.
func Install(ctx context.Context, writer client.Client, version string, custom ...string) error {
	if version == "" {
		version = DefaultVersion
	}
	var objects []client.Object
	for _, role := range []string{PoolMaster, PoolWorker} {
		objects = append(objects, NewConfig("00-"+role, role), NewPool(role))
	}
	for _, role := range custom {
		objects = append(objects, NewPool(role))
	}
	objects = append(objects, NewClusterVersion(version))
	for _, object := range objects {
		if err := writer.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("openshift: creating %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// Rules returns the permissions that the simulator needs.
func Rules() []rbacv1.PolicyRule {
	rule := func(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
	}
	return []rbacv1.PolicyRule{
		rule("", []string{"nodes"}, "get", "list", "watch", "patch"),
		rule("", []string{"nodes/status"}, "patch"),
		rule("", []string{"pods"}, "get", "list", "watch"),
		rule("", []string{"pods/eviction"}, "create"),
		rule(mcfgv1.GroupName, []string{"machineconfigs"}, "get", "list", "watch", "create"),
		rule(mcfgv1.GroupName, []string{"machineconfigpools"}, "get", "list", "watch", "patch"),
		rule(mcfgv1.GroupName, []string{"machineconfigpools/status"}, "update"),
		// A rendered MachineConfig has its pool as the owner whose deletion it blocks.
		rule(mcfgv1.GroupName, []string{"machineconfigpools/finalizers"}, "update"),
		rule(configv1.GroupName, []string{"clusterversions"}, "get", "list", "watch", "patch"),
		rule(configv1.GroupName, []string{"clusterversions/status"}, "update"),
	}
}

// Upgrade sets the version that the cluster is to have; that may be an earlier one, and another update may be under way.
func Upgrade(ctx context.Context, writer client.Client, version string) error {
	if version == "" {
		return errors.New("openshift: no version to upgrade to")
	}
	body := fmt.Appendf(nil, `{"spec":{"desiredUpdate":{"version":%q,"image":null}}}`, version)
	object := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: ClusterVersionName}}
	err := writer.Patch(ctx, object, client.RawPatch("application/merge-patch+json", body))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("openshift: there is no ClusterVersion %s: %w", ClusterVersionName, err)
	}
	if err != nil {
		return fmt.Errorf("openshift: setting spec.desiredUpdate: %w", err)
	}
	return nil
}
