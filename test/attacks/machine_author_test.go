package attacks

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const machineAuthor = "author of Machines"

// machineAuthors is a control plane with the capability machines, and who may write MachineSets and Machines in its namespace, and nothing else.
type machineAuthors struct {
	*harness.World
	as client.Client
}

func newMachineAuthors(t *testing.T, args ...string) *machineAuthors {
	t.Helper()
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	name := metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: "attacks-machines"}
	w.CreateWithCleanup(&rbacv1.Role{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{machinev1beta1.GroupName}, Verbs: []string{"*"},
		Resources: []string{"machines", "machines/status", "machinesets", "machinesets/status", "machinehealthchecks", "machinehealthchecks/status"},
	}}})
	w.CreateWithCleanup(&rbacv1.RoleBinding{
		ObjectMeta: name, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "machine-author"}},
	})
	config, err := env.As("machine-author")
	if err != nil {
		t.Fatal(err)
	}
	a := &machineAuthors{World: w, as: harness.ClientFor(t, config)}
	w.Eventually("the role is in force", func() error {
		return a.as.List(t.Context(), &machinev1beta1.MachineList{}, client.InNamespace(cluster.MachineNamespace))
	})
	// A Machine is refused a Node that existed before it; both times are whole seconds.
	operator := harness.Start(t, env, harness.Options{Args: append([]string{"--controllers=metadata,machines"}, args...)})
	if err := operator.Says(t.Context(), "capability machines: running"); err != nil {
		t.Fatal(err)
	}
	return a
}

// in returns the same for a subtest.
func (a *machineAuthors) in(t *testing.T) *machineAuthors {
	return &machineAuthors{World: harness.NewWorld(t, env), as: a.as}
}

// standing makes a Node that no Machine has, and returns it when every new Machine is younger.
func (a *machineAuthors) standing(name string, labels map[string]string) *corev1.Node {
	a.Helper()
	node := builder.Node(name, builder.WithNodeLabels(labels), builder.WithProviderID("metal:///"+name))
	a.CreateWithCleanup(node)
	a.Eventually("the clock shows another second", func() error {
		if !time.Now().After(node.CreationTimestamp.Add(time.Second)) {
			return errors.New("not yet")
		}
		return nil
	})
	return node
}

// machine makes a Machine as its author, whose provider knows of no Node.
func (a *machineAuthors) machine(name string, change func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	a.Helper()
	machine := harness.NewMachine(name, builder.WithProviderSpec(harness.NeverBoots()), change)
	if err := a.as.Create(a.Context(), machine); err != nil {
		a.Fatal(err)
	}
	return machine
}

// says waits until a condition of a Machine has a reason, and returns its message.
func (a *machineAuthors) says(machine *machinev1beta1.Machine, kind, reason string) (message string) {
	a.Helper()
	a.Eventually(fmt.Sprintf("%s says %s", machine.Name, reason), func() error {
		now := &machinev1beta1.Machine{}
		if err := a.Client.Get(a.Context(), client.ObjectKeyFromObject(machine), now); err != nil {
			return err
		}
		for _, condition := range now.Status.Conditions {
			if string(condition.Type) == kind && condition.Reason == reason {
				message = condition.Message
				return nil
			}
		}
		return fmt.Errorf("it is %s", harness.JSON(now.Status))
	})
	return message
}

// end deletes a Machine as its author, and waits until it is gone.
func (a *machineAuthors) end(machine *machinev1beta1.Machine) {
	a.Helper()
	if err := a.as.Delete(a.Context(), machine); err != nil {
		a.Fatal(err)
	}
	a.Eventually("the Machine is gone", func() error {
		now := &machinev1beta1.Machine{}
		if err := a.Client.Get(a.Context(), client.ObjectKeyFromObject(machine), now); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("it is %s: %w", harness.JSON(now.Status), err)
		}
		return nil
	})
}

// untouched fails the test when a Node has been changed or deleted.
func (a *machineAuthors) untouched(before *corev1.Node) {
	a.Helper()
	now := a.Node(before.Name)
	if now.UID != before.UID || now.DeletionTimestamp != nil || now.Spec.Unschedulable || len(now.Annotations) > len(before.Annotations) {
		a.Errorf("Node %s is %s %s", now.Name, harness.JSON(now.ObjectMeta), harness.JSON(now.Spec))
	}
}

func TestMachineAuthor_NodesOfOthers(t *testing.T) {
	a := newMachineAuthors(t, "--machines-adoption-namespaces=elsewhere")
	attack(t, machineAuthor, "takes over a Node by its providerID, from a namespace that may not adopt Nodes", func(t *testing.T) string {
		a := a.in(t)
		node := a.standing("attacked", nil)
		machine := a.machine("greedy", func(m *machinev1beta1.Machine) { m.Spec.ProviderID = &node.Spec.ProviderID })
		said := a.says(machine, "Ready", "NodeNotAdopted")
		a.end(machine)
		a.untouched(node)
		return said
	})
	attack(t, machineAuthor, "takes over a Node by a forged status.nodeRef", func(t *testing.T) string {
		a := a.in(t)
		node := a.standing("referred", nil)
		machine := a.machine("forger", func(m *machinev1beta1.Machine) {
			m.Spec.ProviderID = &node.Spec.ProviderID
			m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
		})
		said := a.says(machine, "Ready", "NodeNotAdopted")
		a.end(machine)
		a.untouched(node)
		return "the status of a new Machine is empty, whatever its author writes; " + said
	})
	attack(t, machineAuthor, "writes status.nodeRef of a Machine", func(t *testing.T) string {
		a := a.in(t)
		machine := a.machine("patched", func(*machinev1beta1.Machine) {})
		defer a.end(machine)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"nodeRef":{"kind":"Node","name":"any"}}}`))
		return denied(t, a.as.Status().Patch(t.Context(), machine.DeepCopy(), patch))
	})
	attack(t, machineAuthor, "has a Machine replaced by a forged status.phase", func(t *testing.T) string {
		a := a.in(t)
		machine := a.machine("failed", func(*machinev1beta1.Machine) {})
		defer a.end(machine)
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"phase":"Failed"}}`))
		return denied(t, a.as.Status().Patch(t.Context(), machine.DeepCopy(), patch))
	})
}

// TestMachineAuthor_BeingDeleted: what is being deleted, and stays because of a finalizer of its author, is checked as everything else is.
func TestMachineAuthor_BeingDeleted(t *testing.T) {
	a := newMachineAuthors(t)
	attack(t, machineAuthor, "keeps others from reading MachineHealthChecks, by one that is being deleted", func(t *testing.T) string {
		check := &machinev1beta1.MachineHealthCheck{ObjectMeta: harness.Meta("unreadable")}
		check.Finalizers = []string{"example.com/mine"}
		check.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"example.com/attacked": ""}}
		check.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionFalse, Timeout: metav1.Duration{Duration: time.Hour},
		}}
		if err := a.as.Create(t.Context(), check); err != nil {
			t.Fatal(err)
		}
		if err := a.as.Delete(t.Context(), check.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		patch := func(text string) error {
			return a.as.Patch(t.Context(), check.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(text)))
		}
		said := denied(t, patch(`{"spec":{"nodeStartupTimeout":"0foo"}}`))
		if err := patch(`{"metadata":{"finalizers":null}}`); err != nil {
			t.Error(err)
		}
		return said
	})
}

func TestMachineAuthor_ControlPlane(t *testing.T) {
	a := newMachineAuthors(t)
	for _, role := range []string{"control-plane", "master"} {
		attack(t, machineAuthor, "takes over a Node with the role "+role+", from a namespace that may adopt Nodes", func(t *testing.T) string {
			a := a.in(t)
			node := a.standing("attacked-"+role, map[string]string{"node-role.kubernetes.io/" + role: ""})
			machine := a.machine("greedy-"+role, func(m *machinev1beta1.Machine) {
				m.Spec.ProviderID = &node.Spec.ProviderID
				m.Annotations = map[string]string{"drover.dev/skip-quorum-check": "true", "machine.openshift.io/exclude-node-draining": ""}
			})
			said := a.says(machine, "Ready", "NodeNotAdopted")
			a.end(machine)
			a.untouched(node)
			return said
		})
	}
	attack(t, machineAuthor, "gives a Node what isolates workloads, and what guards, budgets and the gate of upgrades trust", func(t *testing.T) string {
		a := a.in(t)
		set := harness.NewMachineSet("isolating", 1)
		trusted := map[string]string{
			"node-restriction.kubernetes.io/secret": "", "example.node-restriction.kubernetes.io/secret": "", "kubernetes.io/hostname": "another",
			"node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/master": "",
			"machineconfiguration.openshift.io/release-image-version": "4.99.0",
		}
		annotations := map[string]string{
			"machineconfiguration.openshift.io/currentConfig": "rendered-forged", "weave.works/kured-reboot-in-progress": "now",
			"cluster.x-k8s.io/owner-name": "another",
		}
		taints := []corev1.Taint{
			{Key: "node.kubernetes.io/out-of-service", Effect: corev1.TaintEffectNoExecute},
			{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoSchedule},
		}
		set.Spec.Template.Spec.Labels = maps.Clone(trusted)
		set.Spec.Template.Spec.Labels["example.com/allowed"] = "yes"
		set.Spec.Template.Spec.Annotations, set.Spec.Template.Spec.Taints = annotations, taints
		if err := a.as.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		defer a.remove(set)
		a.Eventually("the Node has the label that is allowed", func() error {
			node, err := a.nodeOf(set)
			if err != nil || node.Labels["example.com/allowed"] == "" {
				return fmt.Errorf("there is %s: %w", harness.JSON(node), err)
			}
			for key, value := range trusted {
				if got, found := node.Labels[key]; found && got == value {
					t.Errorf("Node %s has the label %s=%s", node.Name, key, value)
				}
			}
			for key := range annotations {
				if _, found := node.Annotations[key]; found {
					t.Errorf("Node %s has the annotation %s", node.Name, key)
				}
			}
			for _, taint := range node.Spec.Taints {
				if slices.ContainsFunc(taints, func(forged corev1.Taint) bool { return forged.Key == taint.Key }) {
					t.Errorf("Node %s has the taint %s", node.Name, taint.Key)
				}
			}
			return nil
		})
		var refused []string
		a.Eventually("the refusals are reported", func() error {
			if refused = a.Events("MachineSet", "isolating")["MetadataRefused"]; len(refused) == 0 {
				return errors.New("there is no event")
			}
			return nil
		})
		return strings.Join(refused, "; ")
	})
}

// members lists the Machines of a MachineSet.
func (a *machineAuthors) members(set *machinev1beta1.MachineSet) (*machinev1beta1.MachineList, error) {
	list := &machinev1beta1.MachineList{}
	return list, a.Client.List(a.Context(), list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels))
}

// nodeOf reads the Node of the first Machine of a MachineSet.
func (a *machineAuthors) nodeOf(set *machinev1beta1.MachineSet) (*corev1.Node, error) {
	list, err := a.members(set)
	switch {
	case err != nil:
		return nil, err
	case len(list.Items) == 0 || list.Items[0].Status.NodeRef == nil:
		return nil, errors.New("no Machine has a Node")
	}
	node := &corev1.Node{}
	return node, a.Client.Get(a.Context(), client.ObjectKey{Name: list.Items[0].Status.NodeRef.Name}, node)
}

// remove deletes a MachineSet and its Machines, as the garbage collector does, which these tests do without.
func (a *machineAuthors) remove(set *machinev1beta1.MachineSet) {
	a.Helper()
	if err := a.as.Delete(a.Context(), set); err != nil {
		a.Error(err)
	}
	list, err := a.members(set)
	if err != nil {
		a.Error(err)
	}
	for i := range list.Items {
		a.end(&list.Items[i])
	}
}

func TestMachineAuthor_ProvidersForTests(t *testing.T) {
	a := newMachineAuthors(t, "--providers=*")
	attack(t, machineAuthor, "makes a Node of any name and role by the provider kwok, which is off unless it is named", func(t *testing.T) string {
		a := a.in(t)
		machine := a.machine("by-kwok", func(m *machinev1beta1.Machine) {
			m.Spec.ProviderSpec.Value.Raw = []byte(`{"apiVersion":"kwok.provider.drover.dev/v1alpha1","kind":"KwokMachineProviderSpec",` +
				`"labels":{"node-role.kubernetes.io/control-plane":""}}`)
		})
		said := a.says(machine, "InstanceExists", "NoProvider")
		if err := a.Client.Get(t.Context(), client.ObjectKey{Name: machine.Name}, &corev1.Node{}); !apierrors.IsNotFound(err) {
			t.Errorf("there is a Node of that name: %v", err)
		}
		a.end(machine)
		return said
	})
}
