package plan

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// MachineConfigPools that every cluster has.
const (
	masterMCP = "master"
	workerMCP = "worker"
)

// Membership determines each node's MachineConfigPool while no run is in progress: master first, then the one custom MachineConfigPool that selects
// the node, then worker (see https://github.com/openshift/machine-config-operator/blob/master/docs/custom-pools.md). A reserved MachineConfigPool
// selects what it selected before its reservation.
type Membership struct {
	names     []string
	selectors map[string]labels.Selector
}

// NewMembership reads the selectors of all MachineConfigPools. It fails for an invalid reservation or selector.
func NewMembership(mcps []*mcfgv1.MachineConfigPool) (*Membership, error) {
	m := &Membership{selectors: map[string]labels.Selector{}}
	for _, mcp := range mcps {
		declared := mcp.Spec.NodeSelector
		reservation, err := ReservationOf(mcp)
		if err != nil {
			return nil, err
		}
		if reservation != nil {
			declared = reservation.NodeSelector
		}
		selector, err := metav1.LabelSelectorAsSelector(declared)
		if err != nil {
			return nil, fmt.Errorf("MachineConfigPool %s: spec.nodeSelector: %w", mcp.Name, err)
		}
		m.names = append(m.names, mcp.Name)
		m.selectors[mcp.Name] = selector
	}
	slices.Sort(m.names)
	return m, nil
}

// MCPsOf returns the names of the MachineConfigPools that select a node: usually one. The machine-config-operator does not update a node that
// several of them select.
func (m *Membership) MCPsOf(node *corev1.Node) []string {
	set := labels.Set(node.Labels)
	if m.selects(masterMCP, set) {
		return []string{masterMCP}
	}
	var custom []string
	for _, name := range m.names {
		if name != masterMCP && name != workerMCP && m.selects(name, set) {
			custom = append(custom, name)
		}
	}
	if len(custom) == 0 && m.selects(workerMCP, set) {
		return []string{workerMCP}
	}
	return custom
}

// selects reports whether a MachineConfigPool selects a node with these labels. One without a selector selects none.
func (m *Membership) selects(mcp string, set labels.Set) bool {
	selector, found := m.selectors[mcp]
	return found && !selector.Empty() && selector.Matches(set)
}

// TargetNodes returns the names of the nodes of a MutexTarget, sorted, or why they are not known.
func TargetNodes(target *v1alpha1.MutexTarget, mcps []*mcfgv1.MachineConfigPool, nodes []*corev1.Node) (names []string, problem string) {
	var missing []string
	for _, name := range target.Spec.MachineConfigPools {
		if findMCP(mcps, name) == nil {
			missing = append(missing, name)
		}
	}
	membership, err := NewMembership(mcps)
	switch {
	case len(missing) > 0:
		return nil, "MachineConfigPools that do not exist: " + strings.Join(missing, ", ")
	case err != nil:
		return nil, err.Error()
	}
	for _, node := range nodes {
		if slices.ContainsFunc(membership.MCPsOf(node), func(mcp string) bool { return slices.Contains(target.Spec.MachineConfigPools, mcp) }) {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, ""
}

func findMCP(mcps []*mcfgv1.MachineConfigPool, name string) *mcfgv1.MachineConfigPool {
	if i := slices.IndexFunc(mcps, func(mcp *mcfgv1.MachineConfigPool) bool { return mcp.Name == name }); i >= 0 {
		return mcps[i]
	}
	return nil
}
