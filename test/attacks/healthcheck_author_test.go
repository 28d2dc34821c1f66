package attacks

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const healthCheckAuthor = "author of MachineHealthChecks"

const metal3 = "infrastructure.cluster.x-k8s.io"

// healthCheckAuthors is a control plane with three healthy Machines, and a user who may write MachineHealthChecks in their namespace, and nothing
// else.
type healthCheckAuthors struct {
	*harness.World
	as       client.Client
	machines []machinev1beta1.Machine
}

func newHealthCheckAuthors(t *testing.T, args ...string) *healthCheckAuthors {
	t.Helper()
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	name := metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: "attacks-healthchecks"}
	w.CreateWithCleanup(&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{machinev1beta1.GroupName}, Resources: []string{"machinehealthchecks"}, Verbs: []string{"*"},
	}}})
	w.CreateWithCleanup(&rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "healthcheck-author"}},
	})
	config, err := env.As("healthcheck-author")
	if err != nil {
		t.Fatal(err)
	}
	a := &healthCheckAuthors{World: w, as: harness.ClientFor(t, config)}
	w.Eventually("the role is in force", func() error {
		return a.as.List(t.Context(), &machinev1beta1.MachineHealthCheckList{}, client.InNamespace(cluster.MachineNamespace))
	})
	w.Operator(harness.Options{Args: append([]string{"--controllers=metadata,machines"}, args...)})
	// An operator that is stopped while its MachineSet is deleted may create one more Machine, which no garbage collector removes here.
	former := &harness.Pool{World: w, Name: "judged"}
	w.Eventually("nothing is left of the test before", func() error {
		left := former.Machines()
		for i := range left {
			if err := w.Client.Delete(t.Context(), &left[i]); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		if len(left) > 0 {
			return fmt.Errorf("%d Machines are", len(left))
		}
		return nil
	})
	p := w.MakePool("judged", 3, nil)
	w.Eventually("each Machine has its Node", func() error {
		a.machines = p.Machines()
		for i := range a.machines {
			if a.machines[i].Status.NodeRef == nil {
				return fmt.Errorf("machine %s is %s", a.machines[i].Name, harness.JSON(a.machines[i].Status))
			}
		}
		if len(a.machines) != 3 {
			return fmt.Errorf("there are %d", len(a.machines))
		}
		return nil
	})
	return a
}

// in returns the same for a subtest.
func (a *healthCheckAuthors) in(t *testing.T) *healthCheckAuthors {
	return &healthCheckAuthors{World: harness.NewWorld(t, env), as: a.as, machines: a.machines}
}

// newHealthCheck returns a MachineHealthCheck of the three Machines that finds them healthy and remediates none.
func newHealthCheck(name, apiVersion, template string) *machinev1beta1.MachineHealthCheck {
	return &machinev1beta1.MachineHealthCheck{ObjectMeta: harness.Meta(name), Spec: machinev1beta1.MachineHealthCheckSpec{
		Selector:     metav1.LabelSelector{MatchLabels: map[string]string{cluster.MachineSetLabel: "judged"}},
		MaxUnhealthy: new(intstr.FromInt32(0)),
		UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
			{Type: "Never", Status: corev1.ConditionTrue, Timeout: metav1.Duration{}},
		},
		RemediationTemplate: &corev1.ObjectReference{APIVersion: apiVersion, Kind: template, Name: "any"},
	}}
}

// says waits until a condition of a MachineHealthCheck has a status and a reason, and all Machines count as healthy; it returns the message. The
// status is written after all deletions.
func (a *healthCheckAuthors) says(check *machinev1beta1.MachineHealthCheck, kind machinev1beta1.ConditionType, want string) (message string) {
	a.Helper()
	a.Eventually(fmt.Sprintf("%s of %s is %s", kind, check.Name, want), func() error {
		now := &machinev1beta1.MachineHealthCheck{}
		if err := a.Client.Get(a.Context(), client.ObjectKeyFromObject(check), now); err != nil {
			return err
		}
		for _, condition := range now.Status.Conditions {
			if condition.Type == kind && fmt.Sprintf("%s %s", condition.Status, condition.Reason) == want &&
				now.Status.CurrentHealthy != nil && *now.Status.CurrentHealthy == len(a.machines) {
				message = condition.Message
				return nil
			}
		}
		return fmt.Errorf("it is %s", harness.JSON(now.Status))
	})
	return message
}

// untouched fails the test when a Machine or its Node has been replaced or is being deleted.
func (a *healthCheckAuthors) untouched() {
	a.Helper()
	for i := range a.machines {
		before := &a.machines[i]
		machine, node := a.Machine(before.Name), a.Node(before.Status.NodeRef.Name)
		if machine.UID != before.UID || machine.DeletionTimestamp != nil {
			a.Errorf("Machine %s was deleted", before.Name)
		}
		if node.UID != before.Status.NodeRef.UID || node.DeletionTimestamp != nil {
			a.Errorf("Node %s was deleted", node.Name)
		}
	}
}

func TestHealthCheckAuthor_KindsOfOthers(t *testing.T) {
	a := newHealthCheckAuthors(t, "--machines-remediation-template-kinds=ClusterRebootTemplate.example.com")
	a.Eventually("the policy is in force", func() error {
		if a.as.Create(t.Context(), newHealthCheck("probe", "v1", "NodeTemplate"), client.DryRunAll) == nil {
			return errors.New("not yet")
		}
		return nil
	})
	refused := map[string]string{
		"NodeTemplate": "v1", "PodTemplate": "v1", "MachineTemplate": machinev1beta1.GroupVersion.String(), "LeaseTemplate": "coordination.k8s.io/v1",
		"NodeGroupTemplate": "drover.dev/v1alpha1", "NodeMaintenanceTemplate": "nodemaintenance.medik8s.io/v1beta1",
		"MutexRunConfigTemplate": "openshift-optional.skrzypek.io/v1alpha1", "ClusterMachineTemplate": "cluster.x-k8s.io/v1beta1",
		"SecretTemplate": "a/b/v1",
	}
	for kind, apiVersion := range refused {
		attack(t, healthCheckAuthor, "has Drover delete objects named like healthy Machines, by a "+kind+" that need not exist", func(t *testing.T) string {
			said := denied(t, a.as.Create(t.Context(), newHealthCheck("greedy", apiVersion, kind)))
			if !strings.Contains(said, "no remediation requests") {
				t.Errorf("another policy denies it: %s", said)
			}
			return said
		})
	}
	a.changesTemplate(t)
	for scope, template := range map[string]string{"Cluster": "ClusterRebootTemplate.example.com", "Namespaced": "RebootTemplate.example.com"} {
		if err := harness.InstallRemediation(t.Context(), env, template, scope); err != nil {
			t.Fatal(err)
		}
	}
	a.mayDeleteReboots()
	for kind, namespace := range map[string]string{"ClusterReboot": "", "Reboot": cluster.MachineNamespace} {
		attack(t, healthCheckAuthor, "has Drover delete a "+kind+", which it may delete", func(t *testing.T) string {
			a := a.in(t)
			object := a.named("example.com", kind, namespace)
			check := newHealthCheck("greedy-"+strings.ToLower(kind), "example.com/v1", kind+"Template")
			if err := a.as.Create(t.Context(), check); err != nil {
				t.Fatal(err)
			}
			defer a.remove(check)
			said := a.says(check, machinev1beta1.ExternalRemediationTemplateAvailable, "False RemediationTemplateRefused")
			a.stays(object)
			return said
		})
	}
	a.untouched()
}

// changesTemplate tries to put a template of Nodes into MachineHealthChecks that exist.
func (a *healthCheckAuthors) changesTemplate(t *testing.T) {
	t.Helper()
	check := newHealthCheck("changing", metal3+"/v1", "Metal3RemediationTemplate")
	check.Finalizers = []string{"example.com/keep"}
	if err := a.as.Create(a.Context(), check); err != nil {
		a.Fatal(err)
	}
	nodes := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"remediationTemplate":{"apiVersion":"v1","kind":"NodeTemplate"}}}`))
	attack(t, healthCheckAuthor, "changes the template of an object that exists", func(t *testing.T) string {
		return denied(t, a.as.Patch(t.Context(), check.DeepCopy(), nodes))
	})
	attack(t, healthCheckAuthor, "changes the template of an object that is being deleted", func(t *testing.T) string {
		a.in(t).remove(check)
		return denied(t, a.as.Patch(t.Context(), check.DeepCopy(), nodes))
	})
	if err := a.as.Patch(a.Context(), check, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		a.Errorf("it cannot go: %v", err)
	}
}

// mayDeleteReboots lets Drover list and delete the two kinds, as a permission that it has for another reason would.
func (a *healthCheckAuthors) mayDeleteReboots() {
	a.Helper()
	name := metav1.ObjectMeta{Name: "attacks-reboots"}
	a.CreateWithCleanup(&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"example.com"}, Resources: []string{"reboots", "clusterreboots"}, Verbs: []string{"get", "list", "create", "delete"},
	}}})
	a.CreateWithCleanup(&rbacv1.ClusterRoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: harness.SystemNamespace, Name: "drover"}},
	})
}

// named makes an object of another user with the name of the first Machine.
func (a *healthCheckAuthors) named(group, kind, namespace string) *unstructured.Unstructured {
	a.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind})
	object.SetNamespace(namespace)
	object.SetName(a.machines[0].Name)
	a.CreateWithCleanup(object)
	return object
}

// stays fails the test when an object is gone, or is being deleted.
func (a *healthCheckAuthors) stays(object *unstructured.Unstructured) {
	a.Helper()
	now := object.DeepCopy()
	err := a.Client.Get(a.Context(), client.ObjectKeyFromObject(object), now)
	if err != nil || now.GetUID() != object.GetUID() || now.GetDeletionTimestamp() != nil {
		a.Errorf("%s %s was deleted: %v", object.GetKind(), object.GetName(), err)
	}
}

// remove deletes a MachineHealthCheck as its author.
func (a *healthCheckAuthors) remove(check *machinev1beta1.MachineHealthCheck) {
	a.Helper()
	if err := a.as.Delete(a.Context(), check); err != nil {
		a.Error(err)
	}
}

func TestHealthCheckAuthor_OlderThanThePolicy(t *testing.T) {
	a := newHealthCheckAuthors(t)
	policy := client.ObjectKey{Name: "drover-remediation-templates"}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{}
	if err := a.Client.Get(t.Context(), policy, binding); err != nil {
		t.Fatal(err)
	}
	if err := a.Client.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	attempts := map[string]*machinev1beta1.MachineHealthCheck{
		"the healthy Nodes": newHealthCheck("older-nodes", "v1", "NodeTemplate"),
		"healthy Machines":  newHealthCheck("older-machines", machinev1beta1.GroupVersion.String(), "MachineTemplate"),
	}
	for _, check := range attempts {
		a.Eventually("the policy is not in force", func() error { return client.IgnoreAlreadyExists(a.as.Create(t.Context(), check.DeepCopy())) })
	}
	binding.ResourceVersion, binding.UID = "", ""
	if err := a.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	for what, check := range attempts {
		attack(t, healthCheckAuthor, "has Drover delete "+what+", by an object that is older than the policy", func(t *testing.T) string {
			a := a.in(t)
			said := a.says(check, machinev1beta1.ExternalRemediationTemplateAvailable, "False RemediationTemplateRefused")
			// It can still be changed otherwise.
			limit := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"maxUnhealthy":1}}`))
			if err := a.as.Patch(t.Context(), check.DeepCopy(), limit); err != nil {
				t.Error(err)
			}
			return said
		})
		a.remove(check)
	}
	a.untouched()
}

// A user, or another operator, has created a request for a healthy Machine's node: it is not the MachineHealthCheck's.
func TestHealthCheckAuthor_RequestsOfOthers(t *testing.T) {
	a := newHealthCheckAuthors(t)
	if err := harness.InstallRemediation(t.Context(), env, "Metal3RemediationTemplate."+metal3, "Namespaced"); err != nil {
		t.Fatal(err)
	}
	attack(t, healthCheckAuthor, "has Drover end the remediation that another user has requested, and list kinds it may not", func(t *testing.T) string {
		a := a.in(t)
		request := a.named(metal3, "Metal3Remediation", cluster.MachineNamespace)
		template := a.named(metal3, "Metal3RemediationTemplate", cluster.MachineNamespace)
		check := newHealthCheck("meddling", metal3+"/v1", "Metal3RemediationTemplate")
		check.Spec.RemediationTemplate.Name = template.GetName()
		if err := a.as.Create(t.Context(), check); err != nil {
			t.Fatal(err)
		}
		defer a.remove(check)
		a.says(check, machinev1beta1.ExternalRemediationTemplateAvailable, "True ")
		a.stays(request)
		return "Drover deletes only requests that were created for the Machine, by its UID"
	})
	a.untouched()
}
