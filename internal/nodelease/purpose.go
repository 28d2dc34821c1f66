package nodelease

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations of a lease that say what Drover has it for. Other holders ignore them.
const (
	AnnotationCapability = "drover.dev/capability"
	AnnotationObject     = "drover.dev/object"
	AnnotationObjectUID  = "drover.dev/object-uid"
	AnnotationGroup      = "drover.dev/node-group"
)

// Trial is how long a lease is valid that is acquired before it is known whether the work begins. It expires without anybody's doing where its holder
// ends before the first disruptive write; the work itself renews it to Duration.
const Trial = time.Minute

// Purpose is what a lease is held for. The zero value says nothing.
type Purpose struct {
	// Capability is what works on the node, Object what it does that for, as kind/name or kind/namespace/name, and UID that object's.
	Capability, Object string
	UID                types.UID
	// Group is the NodeGroup in whose budget the work was admitted; empty leaves it as it is.
	Group string
	// Trial has the lease expire after Trial unless it is renewed without it.
	Trial bool
}

// PurposeOf returns what a lease says that it is held for.
func PurposeOf(lease *coordinationv1.Lease) Purpose {
	of := lease.Annotations
	return Purpose{
		Capability: of[AnnotationCapability], Object: of[AnnotationObject], UID: types.UID(of[AnnotationObjectUID]), Group: of[AnnotationGroup],
	}
}

func (p Purpose) says() bool { return p.Capability != "" }

// isOf reports whether a lease says the purpose.
func (p Purpose) isOf(lease *coordinationv1.Lease) bool {
	of := PurposeOf(lease)
	return of.Capability == p.Capability && of.Object == p.Object && of.UID == p.UID
}

// step corrects the next step of a holder. A lease of another purpose is written. A lease that stays valid for the time of a trial is not written.
func (p Purpose) step(lease *coordinationv1.Lease, step Step, now time.Time) Step {
	switch {
	case step == Keep && p.says() && (!p.isOf(lease) || p.Group != "" && p.Group != PurposeOf(lease).Group):
		return Renew
	case step == Renew && p.Trial && p.isOf(lease) && isValid(lease, now) && expiry(lease.Spec).Sub(now) > Trial/2:
		return Keep
	}
	return step
}

// isValid reports whether a lease has not expired.
func isValid(lease *coordinationv1.Lease, now time.Time) bool { return Decide(lease, "", now) == Wait }

// apply is Apply for a purpose.
func (p Purpose) apply(lease *coordinationv1.Lease, step Step, holder string, node *corev1.Node, now time.Time) {
	seconds := lease.Spec.LeaseDurationSeconds
	isTrial := p.Trial && (step != Renew || seconds == nil || *seconds <= int32(Trial/time.Second))
	// What an expired lease was for may have never begun.
	isOld := !isValid(lease, now)
	Apply(lease, step, holder, node, now)
	if isTrial {
		lease.Spec.LeaseDurationSeconds = new(int32(Trial / time.Second))
	}
	if p.says() || step != Renew || isOld {
		if p.Group == "" && p.isOf(lease) {
			p.Group = PurposeOf(lease).Group
		}
		p.annotate(lease)
	}
}

// annotate has a lease say the purpose.
func (p Purpose) annotate(lease *coordinationv1.Lease) {
	for key, value := range map[string]string{
		AnnotationCapability: p.Capability, AnnotationObject: p.Object, AnnotationObjectUID: string(p.UID), AnnotationGroup: p.Group,
	} {
		if value == "" {
			delete(lease.Annotations, key)
			continue
		}
		if lease.Annotations == nil {
			lease.Annotations = map[string]string{}
		}
		lease.Annotations[key] = value
	}
}
