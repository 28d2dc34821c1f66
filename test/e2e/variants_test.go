package e2e

import (
	"context"
	"embed"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// machinePolicy refuses changes of a Machine's spec once the Cluster API owns it, as OpenShift's policy of that name does.
const machinePolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: machine-api-machine-vap}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules: [{apiGroups: [machine.openshift.io], apiVersions: [v1beta1], operations: [UPDATE], resources: [machines]}]
  validations:
  - expression: >-
      !has(oldObject.status) || !has(oldObject.status.authoritativeAPI) ||
      oldObject.status.authoritativeAPI != 'ClusterAPI' || object.spec == oldObject.spec
    message: the Cluster API is authoritative
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: machine-api-machine-vap}
spec: {policyName: machine-api-machine-vap, validationActions: [Deny]}
`

// migrationCRDs installs the CRDs that OpenShift has while it migrates to the Cluster API. When the test ends, it installs the CRDs of other clusters
// again.
func migrationCRDs(t *testing.T) *harness.World {
	t.Helper()
	install := func(ctx context.Context, files embed.FS, folder string) {
		if _, err := cluster.InstallCRDs(ctx, env.Admin(), files, folder); err != nil {
			t.Fatal(err)
		}
	}
	install(t.Context(), crd.Migration, "migration")
	t.Cleanup(func() { install(context.WithoutCancel(t.Context()), crd.Files, ".") })
	return harness.NewWorld(t, env)
}

func TestVariants_ClusterAPIAuthority(t *testing.T) {
	w := migrationCRDs(t)
	w.Pool(cluster.PoolOptions{Name: "capi", Machines: 2, Labels: map[string]string{"example.com/old": "1"}, CopyToNodes: true})
	if output, err := harness.Kubectl(t.Context(), env, strings.NewReader(machinePolicy), "apply", "-f", "-"); err != nil {
		t.Fatal(err, output)
	}
	t.Cleanup(func() {
		if output, err := harness.Kubectl(context.WithoutCancel(t.Context()), env, strings.NewReader(machinePolicy), "delete", "-f", "-"); err != nil {
			t.Error(err, output)
		}
	})
	machine := w.Machine("capi-0")
	machine.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityClusterAPI
	if err := w.Client.Status().Update(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	try := 0
	w.Eventually("the policy", func() error {
		machine := w.Machine("capi-0")
		try++
		machine.Spec.Labels["example.com/try"] = fmt.Sprint(try)
		if err := w.Client.Update(t.Context(), machine); !apierrors.IsInvalid(err) {
			return fmt.Errorf("changing the spec gives %w", err)
		}
		return nil
	})
	w.Operator(harness.Options{})
	w.Mark("capi")
	mark := w.AuditMark()
	declare(w, "capi", func(spec *machinev1beta1.MachineSpec) {
		spec.Labels = map[string]string{"example.com/team": "blue"}
		spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
	})
	w.Nodes("capi", "what is declared, and no more", func(node *corev1.Node) error {
		if _, ok := node.Labels["example.com/old"]; ok {
			return fmt.Errorf("node %s still has the old label", node.Name)
		}
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil, "example.com/dedicated=one:NoSchedule")
	})
	for _, write := range w.Writes(mark) {
		if write.Resource == "machines" && write.Name == "capi-0" {
			t.Errorf("a Machine of the Cluster API was written: %d %s", write.Code, write.URI)
		}
	}
	if got := w.Machine("capi-1").Spec.Labels["example.com/team"]; got != "blue" {
		t.Errorf("the Machine of the Machine API has %q", got)
	}
}

func TestVariants_CapabilityFollowsItsCRDs(t *testing.T) {
	w := migrationCRDs(t)
	operator := w.Operator(harness.Options{})
	if err := operator.Says(t.Context(), "capability metadata: running"); err != nil {
		t.Fatal(err)
	}
	for round := range 2 {
		name := fmt.Sprintf("crds-%d", round)
		output, err := harness.Kubectl(t.Context(), env, nil, "delete", "crd", "machines.machine.openshift.io", "machinesets.machine.openshift.io")
		if err != nil {
			t.Fatal(err, output)
		}
		if err := operator.Says(t.Context(), "capability metadata: off (the API server has no machine"); err != nil {
			t.Fatal(err)
		}
		// Without the CRDs the operator is ready: there is nothing that it waits for.
		if err := operator.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := cluster.InstallCRDs(t.Context(), env.Admin(), crd.Migration, "migration"); err != nil {
			t.Fatal(err)
		}
		if err := operator.Says(t.Context(), "capability metadata: running"); err != nil {
			t.Fatal(err)
		}
		if err := cluster.CreatePool(t.Context(), env.Admin(), cluster.PoolOptions{Name: name, Machines: 2}); err != nil {
			t.Fatal(err)
		}
		setLabel(w, name, "example.com/team", "blue")
		w.Nodes(name, "the label", func(node *corev1.Node) error {
			return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
		})
	}
	if count := strings.Count(operator.Log(), `"msg":"capability running","capability":"metadata"`); count != 3 {
		t.Errorf("the capability started %d times, want 3", count)
	}
}

func TestVariants_CapabilityNotSelected(t *testing.T) {
	w := harness.NewWorld(t, env)
	operator := w.Operator(harness.Options{Args: []string{"--controllers=*,-metadata"}})
	if err := operator.Says(t.Context(), "capability metadata: off (not in --controllers)"); err != nil {
		t.Fatal(err)
	}
}

func TestVariants_AllNamespacesNeedClusterRole(t *testing.T) {
	const elsewhere = "elsewhere"
	w := harness.NewWorld(t, env)
	if err := w.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}}); err != nil {
		t.Fatal(err)
	}
	roles := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: drover-everywhere}
rules: [{apiGroups: [machine.openshift.io], resources: [machines, machinesets], verbs: [list, watch, patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: drover-everywhere}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drover-everywhere}
subjects: [{kind: ServiceAccount, name: drover, namespace: drover-system}]
`
	if output, err := harness.Kubectl(t.Context(), env, strings.NewReader(roles), "apply", "-f", "-"); err != nil {
		t.Fatal(err, output)
	}
	w.Pool(cluster.PoolOptions{Name: "all", Namespace: elsewhere, Machines: 1, Labels: map[string]string{"example.com/team": "blue"}})
	w.Operator(harness.Options{Args: []string{"--namespace=", "--controllers=metadata"}})
	w.Nodes("all", "the label", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
	})
}

// The tests of the API's own authors hold on the CRDs as they are installed.
func TestVariants_APISuites(t *testing.T) {
	migrationCRDs(t)
	harness.RunAPISuites(t, env, true, 40)
}
