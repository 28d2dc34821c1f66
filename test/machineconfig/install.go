package machineconfig

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// CRDs holds the CustomResourceDefinitions, below the folder "crds": those of MachineConfig, MachineConfigPool and ClusterVersion as a
// production cluster has them. They are copies from the module github.com/openshift/api; a test compares them.
//
//go:embed crds/*.yaml
var CRDs embed.FS

// DefaultVersion is the version of a cluster that Install makes when none is named.
const DefaultVersion = "4.17.2"

// roleLabel is the label of a Node that has a role.
func roleLabel(role string) string { return "node-role.kubernetes.io/" + role }

// NewPool makes the MachineConfigPool of a role as the documentation of OpenShift has people make them: a custom pool selects the Nodes with
// its own role's label, and the MachineConfigs of workers besides its own.
func NewPool(role string) *mcfgv1.MachineConfigPool {
	configs := &metav1.LabelSelector{MatchLabels: map[string]string{RoleLabel: role}}
	if isCustom(role) {
		configs = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
			Key: RoleLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{PoolWorker, role},
		}}}
	}
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: role, Labels: map[string]string{"pools.operator.machineconfiguration.openshift.io/" + role: ""}},
		Spec: mcfgv1.MachineConfigPoolSpec{
			MachineConfigSelector: configs,
			NodeSelector:          &metav1.LabelSelector{MatchLabels: map[string]string{roleLabel(role): ""}},
		},
	}
}

// NewConfig makes a MachineConfig for a role.
func NewConfig(name, role string) *mcfgv1.MachineConfig {
	return &mcfgv1.MachineConfig{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{RoleLabel: role}}, Spec: configSpec(""),
	}
}

// NewClusterVersion makes the ClusterVersion of a cluster of a version.
func NewClusterVersion(version string, now time.Time) *configv1.ClusterVersion {
	return &configv1.ClusterVersion{
		ObjectMeta: metav1.ObjectMeta{
			Name: ClusterVersionName, Annotations: map[string]string{AnnotationPhase: Completed(version, now).Format()},
		},
		Spec: configv1.ClusterVersionSpec{ClusterID: "00000000-0000-4000-8000-000000000000", Channel: "stable-4.17"},
	}
}

// Install makes the pools master, worker and the custom ones, their MachineConfigs, and the ClusterVersion. What is there already is left
// as it is. The CRDs must be there. An empty version is DefaultVersion.
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
	objects = append(objects, NewClusterVersion(version, time.Now()))
	for _, object := range objects {
		if err := writer.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("machineconfig: making %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// Rules are the permissions that a Simulator needs.
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

// Upgrade sends the cluster to a version, also back to an earlier one and while another update goes on.
func Upgrade(ctx context.Context, writer client.Client, version string) error {
	if version == "" {
		return errors.New("machineconfig: no version to go to")
	}
	body := fmt.Appendf(nil, `{"spec":{"desiredUpdate":{"version":%q,"image":null}}}`, version)
	object := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: ClusterVersionName}}
	err := writer.Patch(ctx, object, client.RawPatch("application/merge-patch+json", body))
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("machineconfig: there is no ClusterVersion %s: %w", ClusterVersionName, err)
	}
	if err != nil {
		return fmt.Errorf("machineconfig: setting spec.desiredUpdate: %w", err)
	}
	return nil
}
