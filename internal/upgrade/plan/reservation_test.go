package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/apitest/builder"
)

func newMCP(name string, paused bool, selector *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
	return builder.MachineConfigPool(name, selector, func(pool *mcfgv1.MachineConfigPool) { pool.Spec.Paused = paused })
}

// applyState sets the state of a MachineConfigPool, and returns its reservation as another process reads it.
func applyState(t *testing.T, p *mcfgv1.MachineConfigPool, state MCPState) *Reservation {
	t.Helper()
	p.Spec.Paused, p.Spec.NodeSelector = state.Paused, state.NodeSelector
	delete(p.Annotations, AnnotationReservation)
	if state.Reservation != "" {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, AnnotationReservation, state.Reservation)
	}
	if !MCPStateOf(p).Equal(state) {
		t.Errorf("the MachineConfigPool is %+v, not %+v", MCPStateOf(p), state)
	}
	reservation, err := ReservationOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return reservation
}

func TestReservation_RestoresOriginal(t *testing.T) {
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	withExpression := workers.DeepCopy()
	withExpression.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "isCanary", Operator: metav1.LabelSelectorOpExists}}
	keys := []string{LabelPrefix + "a.numo", LabelPrefix + "b.numo"}
	for name, before := range map[string]*mcfgv1.MachineConfigPool{
		"plain": newMCP("worker", false, workers), "with expressions": newMCP("infra", true, withExpression),
		"without a selector": newMCP("none", false, nil),
	} {
		for _, canary := range []bool{false, true} {
			p := before.DeepCopy()
			reservation := Reserve(p, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").WithKeys(keys)
			reservation.Canary = canary
			state := func(c *Reservation) MCPState {
				if canary {
					return c.Open(p)
				}
				return c.Gated()
			}
			reservation = applyState(t, p, state(reservation))
			again := applyState(t, p, state(reservation))
			applyState(t, p, again.Original(p))
			if diff := cmp.Diff(before.Spec, p.Spec); diff != "" || p.Annotations[AnnotationReservation] != "" {
				t.Errorf("%s: %s %v", name, diff, p.Annotations)
			}
		}
	}
	invalid := newMCP("invalid", false, nil)
	invalid.Annotations = map[string]string{AnnotationReservation: "?"}
	if _, err := ReservationOf(invalid); err == nil {
		t.Error("an invalid reservation counts as none")
	}
}

// TestReservation_SelectorsAreDisjoint: a node is in at most one MachineConfigPool, and only nodes of the run are in the canary.
func TestReservation_SelectorsAreDisjoint(t *testing.T) {
	keys := []string{LabelPrefix + "a.numo", LabelPrefix + "b.numo"}
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}}
	mcp := newMCP("any", false, workers)
	reservation := Reserve(mcp, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").WithKeys(keys)
	target, err := metav1.LabelSelectorAsSelector(reservation.Gated().NodeSelector)
	if err != nil {
		t.Fatal(err)
	}
	canary, err := metav1.LabelSelectorAsSelector(reservation.Open(mcp).NodeSelector)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		labels             labels.Set
		inTarget, inCanary bool
	}{
		"waiting":         {labels.Set{"worker": "", LabelRun: "uid", keys[0]: "", keys[1]: ""}, true, false},
		"released":        {labels.Set{"worker": "", LabelRun: "uid"}, false, true},
		"labeled in part": {labels.Set{"worker": "", LabelRun: "uid", keys[0]: ""}, false, false},
		"not of the run":  {labels.Set{"worker": ""}, false, false},
		"of another run":  {labels.Set{"worker": "", LabelRun: "other"}, false, false},
	} {
		if target.Matches(c.labels) != c.inTarget || canary.Matches(c.labels) != c.inCanary {
			t.Errorf("%s: target %v, canary %v", name, target.Matches(c.labels), canary.Matches(c.labels))
		}
	}
}

// TestReservation_SelectorEdited keeps what another writer adds to a selector during a run.
func TestReservation_SelectorEdited(t *testing.T) {
	key := LabelPrefix + "a.numo"
	before := &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}}
	p := newMCP("a", false, before)
	reservation := Reserve(p, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").WithKeys([]string{key})
	if reservation.WithEdit(reservation.Gated().NodeSelector) != reservation {
		t.Error("the run's own change counts as an edit")
	}
	edited := reservation.Gated().NodeSelector.DeepCopy()
	edited.MatchLabels["zone"] = "a"
	for name, current := range map[string]*metav1.LabelSelector{
		"label added": edited, "label added, requirement of the rule removed": {MatchLabels: edited.MatchLabels},
	} {
		got := reservation.WithEdit(current)
		requirements := got.Gated().NodeSelector.MatchExpressions
		if got.NodeSelector.MatchLabels["zone"] != "a" || len(got.NodeSelector.MatchExpressions) != 0 || len(requirements) != 1 {
			t.Errorf("%s: %+v", name, got.NodeSelector)
		}
	}
	if got := reservation.WithEdit(nil); got.NodeSelector != nil {
		t.Errorf("%+v", got.NodeSelector)
	}
}

func TestMaxUnavailable(t *testing.T) {
	for text, want := range map[string]int{"": 1, "3": 3, "0": 1, "9%": 1, "25%": 5, "much": 1} {
		p := newMCP("a", false, nil)
		if text != "" {
			p.Spec.MaxUnavailable = new(intstr.Parse(text))
		}
		if got := MaxUnavailable(p, 20); got != want {
			t.Errorf("%q of 20: %d, want %d", text, got, want)
		}
	}
}
