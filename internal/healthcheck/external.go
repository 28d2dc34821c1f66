package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/status"
)

// templateSuffix is what the kind of a template has more than that of the requests made from it.
const templateSuffix = "Template"

// outside is what is known of the remediation requests of a MachineHealthCheck with a template. They are of kinds that Drover does not
// know, so they are read from the API server itself.
type outside struct {
	// kind is that of the requests; empty when there is no template, or none that can be used.
	kind schema.GroupVersionKind
	// requests are those that exist, by name, which is the Machine's. Nil when they could not be listed.
	requests map[string]*metav1.PartialObjectMetadata
	// template is the one that was read in this pass.
	template *unstructured.Unstructured
	// found and made are what the two conditions are to say; nil leaves them as they are.
	found, made *state
}

// requested tells whether there is a request for a Machine.
func (o *outside) requested(machine *machinev1beta1.Machine) bool {
	request := o.requests[machine.Name]
	return request != nil && isFor(request, machine)
}

// isFor reports whether a request of a Machine's name and namespace is for this Machine. One without owner names its Machine by nothing else; one
// whose owner is another Machine is left from an older one of the name, and about to be collected.
func isFor(request metav1.Object, machine *machinev1beta1.Machine) bool {
	owners := request.GetOwnerReferences()
	return len(owners) == 0 || slices.ContainsFunc(owners, func(owner metav1.OwnerReference) bool { return owner.UID == machine.UID })
}

// lookOutside lists the requests, and makes sure that the template is there, at the first look and for as long as it is not.
func (p *pass) lookOutside(ctx context.Context) error {
	reference := p.check.Spec.RemediationTemplate
	if reference == nil {
		p.outside = outside{found: &state{}, made: &state{}}
		return nil
	}
	kind, err := requestKind(reference)
	if err != nil {
		p.templateMissing(err)
		return nil
	}
	p.outside.kind = kind
	if err := p.listRequests(ctx); err != nil {
		return err
	}
	for i := range p.in.targets {
		p.in.targets[i].requested = p.outside.requested(p.in.targets[i].machine)
	}
	return p.checkTemplate(ctx, reference)
}

func (p *pass) listRequests(ctx context.Context) error {
	kind := p.outside.kind
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := p.options.Live.List(ctx, list, client.InNamespace(p.check.Namespace))
	switch {
	case unavailable(err):
		p.requestFails(fmt.Sprintf("cannot list %s: %v", kind.GroupKind(), err))
		return nil
	case err != nil:
		return fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
	}
	p.outside.requests = make(map[string]*metav1.PartialObjectMetadata, len(list.Items))
	for i := range list.Items {
		p.outside.requests[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// checkTemplate reads the template when it is not known to be there.
func (p *pass) checkTemplate(ctx context.Context, reference *corev1.ObjectReference) error {
	known := findState(p.check.Status.Conditions, machinev1beta1.ExternalRemediationTemplateAvailable)
	if known.status == corev1.ConditionTrue && p.memory.template == keyOf(reference) {
		return nil
	}
	_, err := p.loadTemplate(ctx)
	return err
}

// loadTemplate reads the template, which is in the namespace of the Machines, whatever the reference says. Nil without an error when it
// cannot be had; the condition says so.
func (p *pass) loadTemplate(ctx context.Context) (*unstructured.Unstructured, error) {
	if p.outside.template != nil {
		return p.outside.template, nil
	}
	reference := p.check.Spec.RemediationTemplate
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(reference.GroupVersionKind())
	err := p.options.Live.Get(ctx, types.NamespacedName{Namespace: p.check.Namespace, Name: reference.Name}, template)
	switch {
	case unavailable(err):
		p.templateMissing(err)
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", reference.Kind, reference.Name, err)
	}
	p.outside.template, p.memory.template = template, keyOf(reference)
	p.outside.found = new(met("", ""))
	return template, nil
}

func (p *pass) templateMissing(err error) {
	p.memory.template = ""
	p.outside.found = new(unmet(machinev1beta1.ConditionSeverityError, reasonNoTemplate, err.Error()))
	p.later(retryDenied)
}

func (p *pass) requestFails(message string) {
	p.outside.made = new(unmet(machinev1beta1.ConditionSeverityError, reasonNoRequest, message))
	p.later(retryDenied)
}

// request makes the object by which somebody outside is asked to remediate a Machine.
func (p *pass) request(ctx context.Context, r *remedy) (bool, error) {
	machine := r.target.machine
	template, err := p.usableTemplate(ctx, r)
	if err != nil || template == nil {
		return false, err
	}
	request, err := newRequest(template, p.outside.kind, machine)
	if err != nil {
		p.noRequest(r, err.Error())
		return false, nil
	}
	err = p.writer.Create(ctx, request, fieldOwner)
	class := status.Classify(err)
	p.metrics.attempts.WithLabelValues(string(byTemplate), string(class)).Inc()
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		p.later(catchUp)
		return false, nil
	case class == status.Denied, class == status.Gone, meta.IsNoMatchError(err):
		p.noRequest(r, err.Error())
		return false, nil
	default:
		p.noRequest(r, err.Error())
		return false, fmt.Errorf("making %s %s: %w", p.outside.kind.Kind, machine.Name, err)
	}
	p.outside.requests[machine.Name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: machine.Name, UID: request.GetUID(), OwnerReferences: request.GetOwnerReferences(),
	}}
	p.recorder.Eventf(machine, corev1.EventTypeNormal, EventRequested,
		"MachineHealthCheck %s has made %s %s: %s", p.key.Name, p.outside.kind.Kind, machine.Name, r.verdict.text)
	return true, nil
}

// usableTemplate returns the template when a request for a Machine can be made from it; nil when something is in the way.
func (p *pass) usableTemplate(ctx context.Context, r *remedy) (*unstructured.Unstructured, error) {
	missing := p.outside.found != nil && p.outside.found.status == corev1.ConditionFalse
	name := r.target.machine.Name
	switch {
	case missing:
		p.block(r, reasonNoTemplate, "there is no remediation template")
		return nil, nil
	case p.outside.requests == nil:
		// The condition or an error says why.
		p.block(r, reasonNoRequest, "the remediation requests cannot be listed")
		return nil, nil
	case p.outside.requests[name] != nil:
		p.noRequest(r, fmt.Sprintf("%s %s exists and is not for this Machine", p.outside.kind.Kind, name))
		return nil, nil
	}
	template, err := p.loadTemplate(ctx)
	if err == nil && template == nil {
		p.block(r, reasonNoTemplate, "there is no remediation template")
	}
	return template, err
}

// noRequest notes why there can be no request for a Machine.
func (p *pass) noRequest(r *remedy, message string) {
	p.block(r, reasonNoRequest, message)
	if p.outside.made == nil {
		p.requestFails(fmt.Sprintf("Machine %s: %s", r.target.machine.Name, message))
	}
}

// newRequest makes a request from a template: what spec.template has, under the Machine's name, and gone when the Machine is.
func newRequest(
	template *unstructured.Unstructured, kind schema.GroupVersionKind, machine *machinev1beta1.Machine,
) (*unstructured.Unstructured, error) {
	content, found, err := unstructured.NestedMap(template.Object, "spec", "template")
	if err != nil || !found {
		return nil, fmt.Errorf("%s %s has no spec.template", template.GetKind(), template.GetName())
	}
	request := &unstructured.Unstructured{Object: content}
	labels, annotations := request.GetLabels(), request.GetAnnotations()
	delete(content, "metadata")
	delete(content, "status")
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[machinev1beta1.TemplateClonedFromNameAnnotation] = template.GetName()
	annotations[machinev1beta1.TemplateClonedFromGroupKindAnnotation] = template.GroupVersionKind().GroupKind().String()
	request.SetGroupVersionKind(kind)
	request.SetNamespace(machine.Namespace)
	request.SetName(machine.Name)
	request.SetLabels(labels)
	request.SetAnnotations(annotations)
	request.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: machinev1beta1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID,
	}})
	return request, nil
}

// cleanUp ends the requests for Machines that are healthy again.
func (p *pass) cleanUp(ctx context.Context) error {
	var trouble []error
	for i := range p.in.targets {
		machine := p.in.targets[i].machine
		request := p.outside.requests[machine.Name]
		if p.decision.verdicts[i].finding != foundHealthy || request == nil || request.DeletionTimestamp != nil || !isFor(request, machine) {
			continue
		}
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}}
		object.SetGroupVersionKind(p.outside.kind)
		err := p.writer.Delete(ctx, object, client.Preconditions{UID: &request.UID})
		switch class := status.Classify(err); {
		case class == status.OK, class == status.Gone:
		case class == status.Stale:
			p.later(catchUp)
		case class == status.Denied, meta.IsNoMatchError(err):
			p.requestFails(fmt.Sprintf("cannot delete %s %s: %v", p.outside.kind.Kind, machine.Name, err))
		default:
			trouble = append(trouble, fmt.Errorf("deleting %s %s: %w", p.outside.kind.Kind, machine.Name, err))
		}
	}
	return errors.Join(trouble...)
}

// outsideStates are what the conditions of external remediation are to say; nil for as they are.
func (p *pass) outsideStates() (found, made *state) {
	found, made = p.outside.found, p.outside.made
	if made != nil || p.outside.requests == nil {
		return found, made
	}
	made = &state{}
	for i := range p.in.targets {
		if machine := p.in.targets[i].machine; p.decision.verdicts[i].finding.due() && p.outside.requested(machine) {
			made = new(met("", ""))
		}
	}
	return found, made
}

// requestKind is the kind of the requests that are made from a template.
func requestKind(reference *corev1.ObjectReference) (schema.GroupVersionKind, error) {
	kind := reference.GroupVersionKind()
	name, ok := strings.CutSuffix(kind.Kind, templateSuffix)
	if !ok || name == "" || kind.Version == "" || reference.Name == "" {
		return kind, fmt.Errorf("%q of %q with the name %q is no remediation template: its kind has to end in %s, and it needs a version and a name",
			reference.Kind, reference.APIVersion, reference.Name, templateSuffix)
	}
	return kind.GroupVersion().WithKind(name), nil
}

func keyOf(reference *corev1.ObjectReference) string {
	return reference.APIVersion + "/" + reference.Kind + "/" + reference.Name
}

// unavailable tells whether an object cannot be had until a person changes something: it, its kind, or the permission is missing.
func unavailable(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
