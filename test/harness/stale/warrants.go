package stale

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// What Drover and its provider for kwok write. A judge that took the words from the code that it judges would follow it into an error.
const (
	cordonRecord     = "drover.dev/cordon"
	instanceOf       = "kwok.provider.drover.dev/instance"
	machinesHolder   = "drover-machines"
	upgradeHolder    = "drover-upgrade"
	groupsHolder     = "drover-node-groups"
	maintenanceOwner = "node-maintenance"
	leasePrefix      = "node-"
)

// warrant is what one kind of request has to be warranted by.
type warrant struct {
	verbs       []string
	resource    schema.GroupResource
	subresource string
	// needs are the kinds that the rule looks at.
	needs []schema.GroupVersionResource
	// counts is whether the rule counts what the operator itself has made and deleted, which has to be right at once. Of other writes one of its
	// controllers may know a moment after another has made them.
	counts bool
	// check returns why the state before the request does not warrant it; after is the state that it made.
	check func(request *Request, before, after *State) error
}

// warrants is the table of all requests that are judged.
var warrants = []warrant{
	{
		verbs: []string{"create"}, resource: machines.GroupResource(),
		needs: []schema.GroupVersionResource{machines, machineSets}, counts: true, check: createMachine,
	},
	{
		verbs: []string{"delete"}, resource: machines.GroupResource(),
		needs: []schema.GroupVersionResource{machines, machineSets, healthChecks, nodes}, counts: true, check: deleteMachine,
	},
	{
		verbs: []string{"create"}, resource: nodes.GroupResource(),
		needs: []schema.GroupVersionResource{machines, nodes}, check: createNode,
	},
	{
		verbs: []string{"delete"}, resource: nodes.GroupResource(),
		needs: []schema.GroupVersionResource{machines, nodes}, check: deleteNode,
	},
	{
		verbs: []string{"update", "patch"}, resource: nodes.GroupResource(),
		needs: []schema.GroupVersionResource{nodes, machines, maintenances, kubevirts, pods, nodeGroups}, check: writeNode,
	},
	{
		verbs: []string{"create"}, resource: pods.GroupResource(), subresource: "eviction",
		needs: []schema.GroupVersionResource{pods, machines, maintenances, kubevirts, nodes, nodeGroups}, check: evict,
	},
	{
		verbs: []string{"delete"}, resource: pods.GroupResource(),
		needs: []schema.GroupVersionResource{pods, machines, maintenances, kubevirts, nodes, nodeGroups}, check: evict,
	},
	{
		verbs: []string{"update", "patch", "delete"}, resource: leases.GroupResource(),
		needs: []schema.GroupVersionResource{leases, nodes, machines, maintenances, kubevirts, jobs, versions}, check: releaseLease,
	},
	{
		verbs: []string{"create"}, resource: jobs.GroupResource(),
		needs: []schema.GroupVersionResource{jobs, runs, versions}, counts: true, check: createJob,
	},
	{
		verbs: []string{"delete"}, resource: jobs.GroupResource(),
		needs: []schema.GroupVersionResource{jobs, runs}, check: deleteJob,
	},
	{
		verbs: []string{"update", "patch"}, resource: pools.GroupResource(),
		needs: []schema.GroupVersionResource{pools, runs, nodes, versions}, check: releasePool,
	},
}

// warrantOf finds the rule for a request; nil if the request is not judged.
func warrantOf(r *Request) *warrant {
	for i := range warrants {
		w := &warrants[i]
		if slices.Contains(w.verbs, r.Verb) && w.resource.Group == r.APIGroup && w.resource.Resource == r.Resource && w.subresource == r.Subresource {
			return w
		}
	}
	return nil
}

// members are the Machines of a set that are not on their way out.
func (s *State) members(set types.UID) (all []*machinev1beta1.Machine) {
	for _, m := range s.Machines {
		if owner := metav1.GetControllerOf(m); owner != nil && owner.UID == set && m.DeletionTimestamp == nil {
			all = append(all, m)
		}
	}
	return all
}

func (s *State) set(uid types.UID) *machinev1beta1.MachineSet {
	for _, set := range s.Sets {
		if set.UID == uid {
			return set
		}
	}
	return nil
}

// createMachine asks that the MachineSet has fewer Machines than replicas.
func createMachine(_ *Request, before, after *State) error {
	created := func(m *machinev1beta1.Machine) bool {
		return !slices.ContainsFunc(before.Machines, func(b *machinev1beta1.Machine) bool { return b.UID == m.UID })
	}
	i := slices.IndexFunc(after.Machines, created)
	if i < 0 {
		return nil // it is gone already
	}
	owner := metav1.GetControllerOf(after.Machines[i])
	if owner == nil {
		return errors.New("it has no MachineSet")
	}
	set := before.set(owner.UID)
	if set == nil || set.DeletionTimestamp != nil {
		return fmt.Errorf("MachineSet %s is gone or being deleted", owner.Name)
	}
	if have, want := len(before.members(set.UID)), replicas(set); have >= want {
		return fmt.Errorf("MachineSet %s has %d Machines, and replicas is %d", set.Name, have, want)
	}
	return nil
}

func replicas(set *machinev1beta1.MachineSet) int {
	if set.Spec.Replicas == nil {
		return 0
	}
	return int(*set.Spec.Replicas)
}

// deleteMachine asks that the MachineSet has more Machines than replicas, or that the Machine is unhealthy.
func deleteMachine(r *Request, before, _ *State) error {
	machine := find(before.Machines, r.Namespace, r.Name)
	if machine == nil || machine.DeletionTimestamp != nil || before.unhealthy(machine) {
		return nil
	}
	owner := metav1.GetControllerOf(machine)
	if owner == nil {
		return errors.New("no MachineSet owns it, and no MachineHealthCheck finds it unhealthy")
	}
	set := before.set(owner.UID)
	if set == nil || set.DeletionTimestamp != nil {
		return nil
	}
	if have, want := len(before.members(set.UID)), replicas(set); have <= want {
		return fmt.Errorf("MachineSet %s has %d Machines, and replicas is %d", set.Name, have, want)
	}
	return nil
}

// unhealthy reports whether a Machine has failed, or a MachineHealthCheck selects it whose conditions its Node meets.
func (s *State) unhealthy(machine *machinev1beta1.Machine) bool {
	if machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed {
		return true
	}
	for _, check := range s.Checks {
		selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
		if err != nil || check.Namespace != machine.Namespace || !selector.Matches(labels.Set(machine.Labels)) || machine.Status.NodeRef == nil {
			continue
		}
		node := find(s.Nodes, "", machine.Status.NodeRef.Name)
		if node == nil || meets(node, check.Spec.UnhealthyConditions) {
			return true
		}
	}
	return false
}

func meets(node *corev1.Node, rules []machinev1beta1.UnhealthyCondition) bool {
	return slices.ContainsFunc(rules, func(rule machinev1beta1.UnhealthyCondition) bool {
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == rule.Type && c.Status == rule.Status
		})
	})
}

// createNode asks for a Machine that is wanted: the Node is the instance of the provider for kwok.
func createNode(r *Request, before, _ *State) error {
	for _, m := range before.Machines {
		if m.Name == r.createdName() {
			if m.DeletionTimestamp != nil {
				return fmt.Errorf("machine %s is being deleted", m.Name)
			}
			return nil
		}
	}
	return errors.New("there is no Machine of its name")
}

// deleteNode asks that the Machine of the Node is being deleted, or gone.
func deleteNode(r *Request, before, _ *State) error {
	node := find(before.Nodes, "", r.Name)
	if node == nil {
		return nil
	}
	for _, m := range before.Machines {
		if before.has(m, node) && m.DeletionTimestamp == nil {
			return fmt.Errorf("machine %s is not being deleted", m.Name)
		}
	}
	return nil
}

// has reports whether a Node belongs to a Machine.
func (s *State) has(machine *machinev1beta1.Machine, node *corev1.Node) bool {
	ref := machine.Status.NodeRef
	return node.Annotations[instanceOf] == string(machine.UID) || ref != nil && ref.Name == node.Name
}

// drains names the object that wants a node drained: a NodeMaintenance or a Machine that is being deleted; empty for none.
func (s *State) drains(node string) string {
	for _, m := range s.Maintenances {
		if m.Node == node && !m.Ending {
			return "NodeMaintenance " + m.Name
		}
	}
	for _, m := range s.Machines {
		if ref := m.Status.NodeRef; m.DeletionTimestamp != nil && ref != nil && ref.Name == node {
			return "Machine " + m.Name
		}
	}
	return ""
}

// writeNode judges the parts of a write of a node.
func writeNode(r *Request, before, after *State) error {
	return errors.Join(uncordon(r, before, after), setTaint(r, before, after))
}

// uncordon asks that nothing wants the node cordoned any more, where a write uncordons it or removes the cordon record.
func uncordon(r *Request, before, after *State) error {
	was, is := find(before.Nodes, "", r.Name), find(after.Nodes, "", r.Name)
	if was == nil || is == nil {
		return nil
	}
	uncordons := was.Spec.Unschedulable && !is.Spec.Unschedulable
	removes := was.Annotations[cordonRecord] != "" && is.Annotations[cordonRecord] == ""
	if !uncordons && !removes {
		return nil
	}
	if user := before.drains(r.Name); user != "" {
		return fmt.Errorf("%s still drains the node", user)
	}
	return before.recorded(was)
}

// recorded asks that the cordon record of a node names none that goes on.
func (s *State) recorded(node *corev1.Node) error {
	record := struct {
		By string `json:"by"`
	}{}
	if node.Annotations[cordonRecord] == "" {
		return errors.New("there is no cordon record: another has cordoned the node")
	}
	if err := json.Unmarshal([]byte(node.Annotations[cordonRecord]), &record); err != nil {
		return fmt.Errorf("the cordon record cannot be read: %w", err)
	}
	for _, m := range s.Maintenances {
		if strings.HasSuffix(record.By, "/"+string(m.UID)) && !m.Ending {
			return fmt.Errorf("the cordon record names NodeMaintenance %s, which does not end", m.Name)
		}
	}
	return nil
}

// evict asks that the pod's node is being drained, or gets a taint from a NodeGroup that the pod has to leave for.
func evict(r *Request, before, _ *State) error {
	pod := find(before.Pods, r.Namespace, r.Name)
	if pod == nil || pod.DeletionTimestamp != nil {
		return nil
	}
	if before.drains(pod.Spec.NodeName) == "" && !before.dedicates(pod.Spec.NodeName) {
		return fmt.Errorf("nothing drains its node %q", pod.Spec.NodeName)
	}
	return nil
}
