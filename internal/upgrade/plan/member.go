package plan

import (
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Pools that every cluster has.
const (
	poolMaster = "master"
	poolWorker = "worker"
)

// Members knows which pool each node is of when no run is under way: master first, else the one custom pool that selects it, else worker
// (see https://github.com/openshift/machine-config-operator/blob/master/docs/custom-pools.md). Pools that a run has claimed count as they were
// before.
type Members struct {
	names     []string
	selectors map[string]labels.Selector
}

// NewMembers reads the selectors of all pools. It fails for a claim or a selector that cannot be read.
func NewMembers(pools []*mcfgv1.MachineConfigPool) (*Members, error) {
	m := &Members{selectors: map[string]labels.Selector{}}
	for _, pool := range pools {
		declared := pool.Spec.NodeSelector
		claim, err := ClaimOf(pool)
		if err != nil {
			return nil, err
		}
		if claim != nil {
			declared = claim.NodeSelector
		}
		selector, err := metav1.LabelSelectorAsSelector(declared)
		if err != nil {
			return nil, fmt.Errorf("MachineConfigPool %s: spec.nodeSelector: %w", pool.Name, err)
		}
		m.names = append(m.names, pool.Name)
		m.selectors[pool.Name] = selector
	}
	slices.Sort(m.names)
	return m, nil
}

// PoolsOf names the pools that select a node: one as a rule, none for one that is of no pool, several for one that the
// machine-config-operator will not touch until that is put right.
func (m *Members) PoolsOf(node *corev1.Node) []string {
	set := labels.Set(node.Labels)
	if m.selects(poolMaster, set) {
		return []string{poolMaster}
	}
	var custom []string
	for _, name := range m.names {
		if name != poolMaster && name != poolWorker && m.selects(name, set) {
			custom = append(custom, name)
		}
	}
	if len(custom) == 0 && m.selects(poolWorker, set) {
		return []string{poolWorker}
	}
	return custom
}

// selects tells whether a pool selects a node. A pool without a selector selects none.
func (m *Members) selects(pool string, set labels.Set) bool {
	selector, there := m.selectors[pool]
	return there && !selector.Empty() && selector.Matches(set)
}
