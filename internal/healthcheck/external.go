package healthcheck

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/status"
)

// external is what has been observed of external remediation. The configuration names its kinds, so that they are read from the API server itself.
type external struct {
	// kind is the kind of the requests, and templateKind the kind of the template; both are empty without a template reference that may be used.
	kind         schema.GroupVersionKind
	templateKind schema.GroupKind
	// requests are the namespace's requests, by name, which is the Machine's; nil if they could not be listed.
	requests map[string]*metav1.PartialObjectMetadata
	// template is nil when it was not read.
	template *unstructured.Unstructured
	// failure is why the template cannot be used until a user corrects that.
	failure plan.TemplateFailure
	// err is the first error of listing the requests or reading the template.
	err error
}

// has reports whether there is a request that was created for a Machine. Any other one of the Machine's name is left alone.
func (e *external) has(machine *machinev1beta1.Machine) bool {
	request := e.requests[machine.Name]
	return request != nil && plan.IsRequestFor(request, machine, e.templateKind)
}

// observeRequests lists the remediation requests that are created from a template; nil has none.
func (rc *reconciliation) observeRequests(ctx context.Context, reference *corev1.ObjectReference) (*external, outcome) {
	if reference == nil {
		return &external{}, outcome{}
	}
	kind, failure := plan.RequestKind(reference, rc.options.TemplateKinds)
	if failure.Reason != "" {
		return &external{failure: failure}, outcome{}
	}
	observed := &external{kind: kind, templateKind: reference.GroupVersionKind().GroupKind()}
	list, err := rc.requests.listKind(ctx, kind, rc.key.Namespace)
	switch {
	case errors.Is(err, errClusterScoped):
		return &external{failure: plan.ClusterScoped(reference, kind)}, outcome{}
	case isUnavailable(err):
		return observed, requestFailed(fmt.Sprintf("cannot list %s: %v", kind.GroupKind(), err))
	case err != nil:
		observed.err = fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
		return observed, outcome{}
	}
	observed.requests = make(map[string]*metav1.PartialObjectMetadata, len(list.Items))
	for i := range list.Items {
		observed.requests[list.Items[i].Name] = &list.Items[i]
	}
	return observed, outcome{}
}

// observeTemplate reads the template if a request is to be created from it, or if it has not been read successfully yet. It is in the namespace of
// the Machines, whatever the reference says.
func (rc *reconciliation) observeTemplate(ctx context.Context, current *snapshot) (out outcome) {
	reference, observed := rc.check.Spec.RemediationTemplate, current.external
	if reference == nil {
		return out
	}
	known := plan.FindCondition(rc.check.Status.Conditions, machinev1beta1.ExternalRemediationTemplateAvailable)
	verified := known.Status == corev1.ConditionTrue && rc.state.template == keyOf(reference)
	if observed.err == nil && observed.failure.Reason == "" && (!verified || len(current.decision.Remediations) > 0) {
		template := &unstructured.Unstructured{}
		template.SetGroupVersionKind(reference.GroupVersionKind())
		err := rc.options.Live.Get(ctx, types.NamespacedName{Namespace: rc.key.Namespace, Name: reference.Name}, template)
		if err == nil {
			observed.template, rc.state.template = template, keyOf(reference)
			return out
		}
		err = fmt.Errorf("reading %s %s: %w", reference.Kind, reference.Name, err)
		if isUnavailable(err) {
			observed.failure = plan.TemplateFailure{Reason: plan.ReasonNoTemplate, Message: err.Error()}
		} else {
			observed.err = err
		}
	}
	if observed.failure.Reason == "" {
		out.Err = observed.err
		return out
	}
	rc.state.template = ""
	out.templateFailure = observed.failure
	out.Requeue.In(controller.RetryDenied)
	return out
}

// prepareRequest returns the remediation request that is to be created for a Machine; nil, and the outcome, if there can be none.
func prepareRequest(observed *external, r *plan.Remediation) (*unstructured.Unstructured, outcome) {
	switch kind, name := observed.kind.Kind, r.Machine.Name; {
	case observed.failure.Reason != "":
		return nil, blocked(r.Machine, observed.failure.Reason, observed.failure.Message)
	case observed.requests == nil:
		return nil, blocked(r.Machine, plan.ReasonNoRequest, "the remediation requests cannot be listed")
	case observed.requests[name] != nil:
		return nil, notRequested(r, fmt.Sprintf("%s %s exists, and no MachineHealthCheck has created it for this Machine: Drover does not delete it. "+
			"Delete it to have the Machine remediated", kind, name))
	case observed.err != nil:
		return nil, failed(observed.err)
	}
	request, err := newRequest(observed.template, observed.kind, r.Machine)
	if err != nil {
		return nil, notRequested(r, err.Error())
	}
	return request, outcome{}
}

// createRequest creates the remediation request of a Machine.
func (rc *reconciliation) createRequest(ctx context.Context, observed *external, request *unstructured.Unstructured, r *plan.Remediation) outcome {
	kind, name := observed.kind.Kind, r.Machine.Name
	err := rc.writer.Create(ctx, request, fieldOwner)
	rc.requests.Absent.remove(observed.kind.GroupKind())
	class := status.Classify(err)
	rc.metrics.attempts.WithLabelValues(string(plan.ByTemplate), string(class)).Inc()
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		return outcome{Outcome: controller.Waiting(controller.CatchUp)}
	case class == status.Denied, class == status.Gone, meta.IsNoMatchError(err):
		return notRequested(r, err.Error())
	default:
		out := notRequested(r, err.Error())
		out.Err = fmt.Errorf("creating %s %s: %w", kind, name, err)
		return out
	}
	// What is observed next counts it as there.
	observed.requests[name] = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: request.GetUID(), ResourceVersion: request.GetResourceVersion(), Annotations: request.GetAnnotations(),
		OwnerReferences: request.GetOwnerReferences(), CreationTimestamp: request.GetCreationTimestamp(),
	}}
	rc.recorder.Eventf(r.Machine, corev1.EventTypeNormal, EventRequested,
		"MachineHealthCheck %s has created %s %s: %s", rc.key.Name, kind, name, r.Assessment.Message)
	return outcome{started: 1, requested: true}
}

// notRequested returns the outcome when there can be no request for a Machine.
func notRequested(r *plan.Remediation, message string) outcome {
	return blocked(r.Machine, plan.ReasonNoRequest, message).and(requestFailed(fmt.Sprintf("Machine %s: %s", r.Machine.Name, message)))
}

// requestFailed returns the outcome of a failure with remediation requests that only a user can correct.
func requestFailed(message string) outcome {
	return outcome{Outcome: controller.Waiting(controller.RetryDenied), requestFailure: message}
}

// newRequest returns a remediation request: what spec.template of the template has, under the Machine's name, and owned by the Machine.
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
	annotations[plan.RequestAnnotation] = string(machine.UID)
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

// deleteRequests deletes the remediation requests of Machines that are healthy again. It deletes a request only if it was created for the Machine and
// has not changed since it was observed.
func (rc *reconciliation) deleteRequests(ctx context.Context, current *snapshot) (out outcome) {
	kind := current.external.kind
	for i := range current.input.Targets {
		machine := current.input.Targets[i].Machine
		request := current.external.requests[machine.Name]
		if current.decision.Assessments[i].Health != plan.Healthy || !current.external.has(machine) || request.DeletionTimestamp != nil {
			continue
		}
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: machine.Name}}
		object.SetGroupVersionKind(kind)
		err := rc.writer.Delete(ctx, object, client.Preconditions{UID: &request.UID, ResourceVersion: &request.ResourceVersion})
		switch class := status.Classify(err); {
		case class == status.OK, class == status.Gone:
		case class == status.Stale:
			out.Requeue.In(controller.CatchUp)
		case class == status.Denied, meta.IsNoMatchError(err):
			out = out.and(requestFailed(fmt.Sprintf("cannot delete %s %s: %v", kind.Kind, machine.Name, err)))
		default:
			out.Err = errors.Join(out.Err, fmt.Errorf("deleting %s %s: %w", kind.Kind, machine.Name, err))
		}
	}
	return out
}

func keyOf(reference *corev1.ObjectReference) string {
	return reference.APIVersion + "/" + reference.Kind + "/" + reference.Name
}
