package machineconfig

import (
	"fmt"
	"slices"
	"strings"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-io/drover/test/openshift"
)

// Membership finds the pool that a Node is in.
type Membership struct{ pools []selection }

type selection struct {
	name     string
	selector labels.Selector
}

// NewMembership reads the selectors of all pools. A pool whose selector is empty or cannot be read selects nothing.
func NewMembership(pools []*mcfgv1.MachineConfigPool) *Membership {
	m := &Membership{}
	for _, pool := range pools {
		selector, err := metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector)
		if err != nil || selector.Empty() {
			continue
		}
		m.pools = append(m.pools, selection{pool.Name, selector})
	}
	slices.SortFunc(m.pools, func(a, b selection) int { return strings.Compare(a.name, b.name) })
	return m
}

// ConflictError says that several custom pools select one Node, which is then in none and is not updated.
type ConflictError struct{ Pools []string }

// Error names the pools.
func (e *ConflictError) Error() string {
	return "selected by the custom pools " + strings.Join(e.Pools, " and ")
}

func (e *ConflictError) has(pool string) bool { return slices.Contains(e.Pools, pool) }

// Of returns the pool of a Node with the given labels: master first, else the one custom pool that selects it, else worker, else "".
func (m *Membership) Of(nodeLabels map[string]string) (string, error) {
	var master, worker bool
	var custom []string
	for _, pool := range m.pools {
		if !pool.selector.Matches(labels.Set(nodeLabels)) {
			continue
		}
		switch pool.name {
		case openshift.PoolMaster:
			master = true
		case openshift.PoolWorker:
			worker = true
		default:
			custom = append(custom, pool.name)
		}
	}
	switch {
	case len(custom) > 1:
		// Also for a master: the original refuses before it looks at that.
		return "", &ConflictError{Pools: custom}
	case master:
		return openshift.PoolMaster, nil
	case len(custom) == 1:
		return custom[0], nil
	case worker:
		return openshift.PoolWorker, nil
	}
	return "", nil
}

// isCustom reports whether a pool is a custom one.
func isCustom(pool string) bool { return pool != openshift.PoolMaster && pool != openshift.PoolWorker }

// specError is what is wrong with a pool's spec; nil for nothing.
func specError(pool *mcfgv1.MachineConfigPool) error {
	if _, err := metav1.LabelSelectorAsSelector(pool.Spec.NodeSelector); err != nil {
		return fmt.Errorf("spec.nodeSelector: %w", err)
	}
	if _, err := metav1.LabelSelectorAsSelector(pool.Spec.MachineConfigSelector); err != nil {
		return fmt.Errorf("spec.machineConfigSelector: %w", err)
	}
	_, err := MaxUnavailable(pool, 1)
	return err
}
