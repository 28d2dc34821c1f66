package machineset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// own adopts and releases Machines. It tells whether the number of Machines can be looked at in this pass: as long as it is not sure
// whose they are, one created or deleted may be one too many. The cache tells when it has happened.
func (p *pass) own(ctx context.Context) bool {
	adopt, release := p.decision.Adopt, p.decision.Release
	if len(adopt)+len(release) == 0 {
		return true
	}
	p.later(catchUp)
	if released := p.reown(ctx, release, p.without); len(released) > 0 {
		p.notices.normal(p.set, EventReleased, "released %s: the selector does not match any more", machines(released))
	}
	if len(adopt) == 0 {
		return false
	}
	var adopted []string
	if p.alive(ctx) {
		adopted = p.reown(ctx, adopt, p.with)
	}
	for _, machine := range adopt {
		p.missing[machine.UID] = !slices.Contains(adopted, machine.Name)
	}
	if len(adopted) > 0 {
		p.notices.normal(p.set, EventAdopted, "adopted %s: the selector matches and nobody owned them", machines(adopted))
	}
	return false
}

// with makes the set the controller of a Machine; a plain reference to it becomes that one.
func (p *pass) with(machine *machinev1beta1.Machine) []metav1.OwnerReference {
	return append(p.without(machine), *controllerOf(p.set))
}

func (p *pass) without(machine *machinev1beta1.Machine) []metav1.OwnerReference {
	return slices.DeleteFunc(slices.Clone(machine.OwnerReferences), func(o metav1.OwnerReference) bool { return o.UID == p.set.UID })
}

func controllerOf(set *machinev1beta1.MachineSet) *metav1.OwnerReference {
	return metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet"))
}

// reown changes the owners of Machines, if they are as they were seen, and returns the names of those for which it worked.
func (p *pass) reown(
	ctx context.Context, all []*machinev1beta1.Machine, owners func(*machinev1beta1.Machine) []metav1.OwnerReference,
) (done []string) {
	errs := make([]error, len(all))
	tried := inBatches(len(all), p.options.Parallel, func(i int) bool {
		errs[i] = p.patchOwners(ctx, all[i], owners(all[i]))
		return harmless(status.Classify(errs[i]))
	})
	for i, machine := range all[:tried] {
		switch class := status.Classify(errs[i]); class {
		case status.OK:
			done = append(done, machine.Name)
		case status.Stale:
			p.stale = true
		case status.Denied:
			log.FromContext(ctx).Error(errs[i], "cannot change the owner of a Machine", "machine", machine.Name, "retryAfter", retryDenied.String())
			p.memory.refused[machine.UID] = refusal{p.now.Add(retryDenied), fmt.Sprintf("Machine %s: %v", machine.Name, errs[i])}
			// Without this one the rest can be decided.
			p.later(retryStale)
		case status.Transient:
			p.err = fmt.Errorf("changing the owner of Machine %s: %w", machine.Name, errs[i])
		}
	}
	return done
}

func (p *pass) patchOwners(ctx context.Context, machine *machinev1beta1.Machine, owners []metav1.OwnerReference) error {
	// The list is one value in a merge patch. The version guards it, and the labels by which it was decided.
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": machine.UID, "resourceVersion": machine.ResourceVersion, "ownerReferences": owners,
	}})
	if err != nil {
		return err
	}
	target := partial("Machine", machine)
	if err := p.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return err
	}
	p.owned.Updated(string(p.set.UID), target)
	return nil
}

// ownership is what keeps Machines from being adopted or released; nil for nothing.
func (p *pass) ownership() *plan.Failure {
	var texts []string
	for _, r := range p.memory.refused {
		texts = append(texts, r.message)
	}
	if len(texts) == 0 {
		return nil
	}
	slices.Sort(texts)
	return &plan.Failure{Reason: plan.ReasonOwnerError, Message: strings.Join(texts[:1], "") + more(len(texts)-1)}
}

func more(others int) string {
	if others == 0 {
		return ""
	}
	return fmt.Sprintf(" (and %d more)", others)
}

// machines names Machines in an event.
func machines(names []string) string {
	if len(names) == 1 {
		return "Machine " + names[0]
	}
	return fmt.Sprintf("%d Machines: %s", len(names), plan.Names(names, maxNamed))
}
