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

// AnnotationClaim on a MachineConfigPool says which run has it, and how it was before. It is written with the first change of the pool and
// goes with the last.
const AnnotationClaim = "upgrade.drover.dev/claim"

// Claim is a run's hold on a pool.
type Claim struct {
	// Run and UID are the MutexRunConfig's.
	Run types.NamespacedName `json:"run"`
	UID types.UID            `json:"uid"`
	// Paused and NodeSelector are what the pool had before.
	Paused       bool                  `json:"paused"`
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
	// Keys are those of the rules' labels that the pool's selector asks for.
	Keys []string `json:"keys,omitempty"`
	// Canary tells that nodes are moved to this pool.
	Canary bool `json:"canary,omitempty"`
}

// ClaimOf reads the claim on a pool; nil for none. It fails for one that cannot be read, or is nobody's: nobody could give back what was before.
func ClaimOf(pool *mcfgv1.MachineConfigPool) (*Claim, error) {
	text := pool.Annotations[AnnotationClaim]
	if text == "" {
		return nil, nil
	}
	claim := &Claim{}
	if err := json.Unmarshal([]byte(text), claim); err != nil {
		return nil, fmt.Errorf("MachineConfigPool %s: annotation %s: %w", pool.Name, AnnotationClaim, err)
	}
	if claim.UID == "" || claim.Run.Name == "" {
		return nil, fmt.Errorf("MachineConfigPool %s: annotation %s: it names no run", pool.Name, AnnotationClaim)
	}
	return claim, nil
}

// Take makes the claim of a run on a pool as it is now.
func Take(pool *mcfgv1.MachineConfigPool, run types.NamespacedName, uid types.UID) *Claim {
	return &Claim{Run: run, UID: uid, Paused: pool.Spec.Paused, NodeSelector: pool.Spec.NodeSelector.DeepCopy()}
}

// Inherit makes a claim of a run that is gone this run's. What was before is known from it alone.
func (c *Claim) Inherit(run types.NamespacedName, uid types.UID) *Claim {
	out := *c
	out.Run, out.UID = run, uid
	return &out
}

// With is the claim with the keys of the present rules.
func (c *Claim) With(keys []string) *Claim {
	out := *c
	out.Keys = slices.Clone(keys)
	return &out
}

// Edited is the claim after somebody else has changed the selector of the target pool meanwhile: what was put there besides the rules'
// labels is to be there in the end, too.
func (c *Claim) Edited(now *metav1.LabelSelector) *Claim {
	if apiequality.Semantic.DeepEqual(now, c.Held().NodeSelector) {
		return c
	}
	out := *c
	out.NodeSelector = now.DeepCopy()
	if out.NodeSelector == nil {
		return &out
	}
	before := &metav1.LabelSelector{}
	if c.NodeSelector != nil {
		before = c.NodeSelector
	}
	out.NodeSelector.MatchExpressions = slices.DeleteFunc(out.NodeSelector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool {
		own := r.Operator == metav1.LabelSelectorOpExists && slices.Contains(c.Keys, r.Key)
		return own && !slices.ContainsFunc(before.MatchExpressions, func(b metav1.LabelSelectorRequirement) bool {
			return apiequality.Semantic.DeepEqual(b, r)
		})
	})
	return &out
}

// Text is that of the annotation.
func (c *Claim) Text() string {
	text, err := json.Marshal(c)
	if err != nil {
		panic(err) // it has nothing that cannot be rendered
	}
	return string(text)
}

// Shape is what a pool is to be.
type Shape struct {
	// Paused and NodeSelector go to its spec.
	Paused       bool
	NodeSelector *metav1.LabelSelector
	// Claim is the text of the annotation; empty for none.
	Claim string
}

// ShapeOf is what a pool is.
func ShapeOf(pool *mcfgv1.MachineConfigPool) Shape {
	return Shape{Paused: pool.Spec.Paused, NodeSelector: pool.Spec.NodeSelector, Claim: pool.Annotations[AnnotationClaim]}
}

// Equal tells whether two shapes are the same to the API.
func (s Shape) Equal(other Shape) bool { return apiequality.Semantic.DeepEqual(s, other) }

// Held is what a target pool is while its nodes wait: paused. Those with the labels of all rules stay in it, others leave it; what its
// selector asked for before still holds.
func (c *Claim) Held() Shape {
	return Shape{Paused: true, NodeSelector: with(c.NodeSelector, metav1.LabelSelectorOpExists, c.Keys), Claim: c.Text()}
}

// Stopped is a target pool as it was, but paused and claimed: the first step, and the last but one.
func (c *Claim) Stopped() Shape {
	return Shape{Paused: true, NodeSelector: c.NodeSelector, Claim: c.Text()}
}

// Open is what the canary pool is meanwhile: nodes without any rule's label are in it, of those alone that belong to the run. Its own nodes
// are given the run's label, too; without that the machine-config-operator would upgrade every free worker. Whether the pool is paused is
// left to those who pause it.
func (c *Claim) Open(pool *mcfgv1.MachineConfigPool) Shape {
	base := &metav1.LabelSelector{}
	if c.NodeSelector != nil {
		base.MatchLabels = c.NodeSelector.DeepCopy().MatchLabels
	}
	selector := with(base, metav1.LabelSelectorOpDoesNotExist, c.Keys)
	selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: LabelRun, Operator: metav1.LabelSelectorOpIn, Values: []string{string(c.UID)},
	})
	return Shape{Paused: pool.Spec.Paused, NodeSelector: selector, Claim: c.Text()}
}

// Before is what the pool was, to be given back as it was. A canary pool has never been paused or unpaused.
func (c *Claim) Before(pool *mcfgv1.MachineConfigPool) Shape {
	shape := Shape{Paused: c.Paused, NodeSelector: c.NodeSelector}
	if c.Canary {
		shape.Paused = pool.Spec.Paused
	}
	return shape
}

func with(selector *metav1.LabelSelector, operator metav1.LabelSelectorOperator, keys []string) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	if selector != nil {
		out = selector.DeepCopy()
	}
	for _, key := range keys {
		wanted := metav1.LabelSelectorRequirement{Key: key, Operator: operator}
		known := func(r metav1.LabelSelectorRequirement) bool { return apiequality.Semantic.DeepEqual(r, wanted) }
		if !slices.ContainsFunc(out.MatchExpressions, known) {
			out.MatchExpressions = append(out.MatchExpressions, wanted)
		}
	}
	return out
}

// MaxUnavailable is how many of a pool's nodes may be out of service at once, as the machine-config-operator reads spec.maxUnavailable: one
// without it, and one at least; of a percentage, what is left over does not count.
func MaxUnavailable(pool *mcfgv1.MachineConfigPool, members int) int {
	if pool.Spec.MaxUnavailable == nil {
		return 1
	}
	limit, err := intstr.GetScaledValueFromIntOrPercent(pool.Spec.MaxUnavailable, members, false)
	if err != nil {
		return 1
	}
	return max(limit, 1)
}
