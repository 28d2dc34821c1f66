package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// AnnotationReservation on a MachineConfigPool holds its Reservation. It is written with the first change of the MachineConfigPool and removed with
// the last.
const AnnotationReservation = "upgrade.drover.dev/claim"

// Reservation says which run has a MachineConfigPool to itself, and what the MachineConfigPool was before.
type Reservation struct {
	// Run and UID are the MutexRunConfig's.
	Run types.NamespacedName `json:"run"`
	UID types.UID            `json:"uid"`
	// Paused and NodeSelector are what the MachineConfigPool had before the reservation.
	Paused       bool                  `json:"paused"`
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Keys are the labels of rules that the selector requires now.
	Keys []string `json:"keys,omitempty"`
	// Canary reports whether released nodes are moved to this MachineConfigPool.
	Canary bool `json:"canary,omitempty"`
}

// ReservationOf returns the reservation of a MachineConfigPool; nil for none. If the reservation cannot be read or names no run, ReservationOf
// returns an error, because nothing shows what the MachineConfigPool was before.
func ReservationOf(mcp *mcfgv1.MachineConfigPool) (*Reservation, error) {
	text := mcp.Annotations[AnnotationReservation]
	if text == "" {
		return nil, nil
	}
	reservation := &Reservation{}
	if err := json.Unmarshal([]byte(text), reservation); err != nil {
		return nil, fmt.Errorf("MachineConfigPool %s: annotation %s: %w", mcp.Name, AnnotationReservation, err)
	}
	if reservation.UID == "" || reservation.Run.Name == "" {
		return nil, fmt.Errorf("MachineConfigPool %s: annotation %s: it names no run", mcp.Name, AnnotationReservation)
	}
	return reservation, nil
}

// Reserve returns the reservation of a MachineConfigPool as it is now.
func Reserve(mcp *mcfgv1.MachineConfigPool, run types.NamespacedName, uid types.UID) *Reservation {
	return &Reservation{Run: run, UID: uid, Paused: mcp.Spec.Paused, NodeSelector: mcp.Spec.NodeSelector.DeepCopy()}
}

// WithKeys returns the reservation with the labels of other rules.
func (r *Reservation) WithKeys(keys []string) *Reservation {
	out := *r
	out.Keys = slices.Clone(keys)
	return &out
}

// WithEdit returns the reservation of a target after another writer may have changed its selector: what was added to the labels of the rules is
// kept when the selector is restored.
func (r *Reservation) WithEdit(current *metav1.LabelSelector) *Reservation {
	if len(r.Keys) == 0 || apiequality.Semantic.DeepEqual(current, r.Gated().NodeSelector) {
		return r
	}
	out := *r
	out.NodeSelector = current.DeepCopy()
	if out.NodeSelector == nil {
		return &out
	}
	before := &metav1.LabelSelector{}
	if r.NodeSelector != nil {
		before = r.NodeSelector
	}
	out.NodeSelector.MatchExpressions = slices.DeleteFunc(out.NodeSelector.MatchExpressions, func(e metav1.LabelSelectorRequirement) bool {
		ofRule := e.Operator == metav1.LabelSelectorOpExists && slices.Contains(r.Keys, e.Key)
		return ofRule && !contains(before.MatchExpressions, e)
	})
	return &out
}

// Text returns the value of the annotation.
func (r *Reservation) Text() string { return marshal(r) }

// MCPState is the part of a MachineConfigPool that runs change.
type MCPState struct {
	// Paused and NodeSelector are in its spec.
	Paused       bool
	NodeSelector *metav1.LabelSelector
	// Reservation is the value of the annotation; empty for none.
	Reservation string
}

// MCPStateOf returns the state of a MachineConfigPool.
func MCPStateOf(mcp *mcfgv1.MachineConfigPool) MCPState {
	return MCPState{Paused: mcp.Spec.Paused, NodeSelector: mcp.Spec.NodeSelector, Reservation: mcp.Annotations[AnnotationReservation]}
}

// Equal reports whether two states are the same to the API.
func (s MCPState) Equal(other MCPState) bool { return apiequality.Semantic.DeepEqual(s, other) }

// Gated returns the state of a target while its nodes wait: paused. It selects nodes with the labels of all rules, in addition to what it
// selected before, so that a released node leaves it.
func (r *Reservation) Gated() MCPState {
	return MCPState{Paused: true, NodeSelector: withKeys(r.NodeSelector, metav1.LabelSelectorOpExists, r.Keys), Reservation: r.Text()}
}

// Open returns the state of the canary during a run: it selects the nodes of the run without any rule's label. Its own nodes get the label of the
// run, too; if the selector did not require that, the machine-config-operator would upgrade every worker that is not in a target. Whether the canary
// is paused does not change.
func (r *Reservation) Open(mcp *mcfgv1.MachineConfigPool) MCPState {
	base := &metav1.LabelSelector{}
	if r.NodeSelector != nil {
		base.MatchLabels = r.NodeSelector.DeepCopy().MatchLabels
	}
	selector := withKeys(base, metav1.LabelSelectorOpDoesNotExist, r.Keys)
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: LabelRun, Operator: metav1.LabelSelectorOpIn, Values: []string{string(r.UID)},
	})
	return MCPState{Paused: mcp.Spec.Paused, NodeSelector: selector, Reservation: r.Text()}
}

// Original returns the state before the reservation. Runs never pause or unpause the canary.
func (r *Reservation) Original(mcp *mcfgv1.MachineConfigPool) MCPState {
	state := MCPState{Paused: r.Paused, NodeSelector: r.NodeSelector}
	if r.Canary {
		state.Paused = mcp.Spec.Paused
	}
	return state
}

func withKeys(selector *metav1.LabelSelector, operator metav1.LabelSelectorOperator, keys []string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if selector != nil {
		out = selector.DeepCopy()
	}
	for _, key := range keys {
		if wanted := (metav1.LabelSelectorRequirement{Key: key, Operator: operator}); !contains(out.MatchExpressions, wanted) {
			out.MatchExpressions = append(out.MatchExpressions, wanted)
		}
	}
	return out
}

func contains(all []metav1.LabelSelectorRequirement, wanted metav1.LabelSelectorRequirement) bool {
	return slices.ContainsFunc(all, func(e metav1.LabelSelectorRequirement) bool { return apiequality.Semantic.DeepEqual(e, wanted) })
}

// MaxUnavailable returns how many nodes of a MachineConfigPool may be unavailable at once, as the machine-config-operator reads
// spec.maxUnavailable: 1 by default and at least, and a percentage is rounded down.
func MaxUnavailable(mcp *mcfgv1.MachineConfigPool, members int) int {
	if mcp.Spec.MaxUnavailable == nil {
		return 1
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(mcp.Spec.MaxUnavailable, members, false)
	if err != nil {
		return 1
	}
	return max(limit, 1)
}

// marshal renders a value that only has types that JSON can represent.
func marshal(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}
