package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
)

// RequestAnnotation of a remediation request is the UID of the Machine that Drover has created it for.
const RequestAnnotation = "drover.dev/remediation-for"

// templateSuffix distinguishes the kind of a remediation template from the kind of its requests.
const templateSuffix = "Template"

// DefaultTemplateKinds returns the kinds of remediation templates that are used unless the configuration names others: the kinds of medik8s and
// metal3. config/machines/rbac.yaml has the permissions for them.
func DefaultTemplateKinds() []string {
	return []string{
		"SelfNodeRemediationTemplate.self-node-remediation.medik8s.io",
		"FenceAgentsRemediationTemplate.fence-agents-remediation.medik8s.io",
		"MachineDeletionRemediationTemplate.machine-deletion-remediation.medik8s.io",
		"Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io",
	}
}

// refusedGroups are groups whose kinds are no remediation requests. isRefusedGroup has rules for more groups.
var refusedGroups = []string{
	"cluster.x-k8s.io", "nodemaintenance.medik8s.io", "nodemaintenance.kubevirt.io", "openshift-optional.skrzypek.io",
}

// isRefusedGroup reports whether no kind of a group is ever a remediation request. It refuses the groups of Kubernetes itself, which have no dot or
// end in k8s.io or kubernetes.io, of OpenShift, of the Cluster API's core, of Drover, and the groups that Drover acts on. The policy
// drover-remediation-templates in config/machines/admission.yaml has the same rules.
func isRefusedGroup(group string) bool {
	within := func(domain string) bool { return group == domain || strings.HasSuffix(group, "."+domain) }
	return !strings.Contains(group, ".") || slices.Contains(refusedGroups, group) || slices.ContainsFunc(
		[]string{"k8s.io", "kubernetes.io", "openshift.io", "drover.dev"}, within)
}

// ValidateTemplateKind returns why a kind of the configuration, written Kind.group, cannot be one of remediation templates.
func ValidateTemplateKind(text string) error {
	kind := schema.ParseGroupKind(text)
	name, ok := strings.CutSuffix(kind.Kind, templateSuffix)
	switch {
	case !ok || name == "" || len(validation.IsDNS1035Label(strings.ToLower(name))) > 0:
		return fmt.Errorf("must be Kind.group, of a kind that ends in %s, such as %s", templateSuffix, DefaultTemplateKinds()[0])
	case isRefusedGroup(kind.Group):
		return fmt.Errorf("kinds of the group %q are no remediation requests: Drover would create and delete objects of Kubernetes, OpenShift, "+
			"the Cluster API or its own", kind.Group)
	case len(validation.IsDNS1123Subdomain(kind.Group)) > 0:
		return fmt.Errorf("%q is not a group", kind.Group)
	}
	return nil
}

// isVersion matches versions of APIs: https://kubernetes.io/docs/reference/using-api/#api-versioning. Any other text may be a path on the API server.
var isVersion = regexp.MustCompile("^v[0-9]+((alpha|beta)[0-9]+)?$")

// TemplateFailure is why the remediation template cannot be used until a user corrects that; the zero value if it can.
type TemplateFailure struct {
	// Reason is the reason of the conditions.
	Reason, Message string
}

// RequestKind returns the kind of the requests that are created from a template. allowed are the kinds of templates that the configuration names.
func RequestKind(reference *corev1.ObjectReference, allowed []string) (schema.GroupVersionKind, TemplateFailure) {
	kind := reference.GroupVersionKind()
	name, ok := strings.CutSuffix(kind.Kind, templateSuffix)
	switch {
	case !ok || name == "" || !isVersion.MatchString(kind.Version) || reference.Name == "":
		return kind, TemplateFailure{ReasonNoTemplate, fmt.Sprintf("spec.remediationTemplate (kind %q, apiVersion %q, name %q) is not a remediation "+
			"template: it needs a kind that ends in %s, a version such as v1alpha1, and a name", reference.Kind, reference.APIVersion, reference.Name,
			templateSuffix)}
	case isRefusedGroup(kind.Group):
		return kind, refusedTemplate(kind, fmt.Sprintf("kinds of the group %q are no remediation requests", kind.Group))
	case !slices.Contains(allowed, kind.GroupKind().String()):
		return kind, refusedTemplate(kind, "the configuration does not name this kind in machines.remediation.templateKinds")
	}
	return kind.GroupVersion().WithKind(name), TemplateFailure{}
}

// RequestKindOf returns the kind of a template that the configuration names, and the kind of its requests.
func RequestKindOf(allowed string) (template, request schema.GroupKind) {
	template = schema.ParseGroupKind(allowed)
	return template, schema.GroupKind{Group: template.Group, Kind: strings.TrimSuffix(template.Kind, templateSuffix)}
}

// ClusterScoped returns the failure of a template whose requests are not namespaced.
func ClusterScoped(reference *corev1.ObjectReference, request schema.GroupVersionKind) TemplateFailure {
	return refusedTemplate(reference.GroupVersionKind(), fmt.Sprintf("%s is not namespaced", request.GroupKind()))
}

func refusedTemplate(kind schema.GroupVersionKind, why string) TemplateFailure {
	return TemplateFailure{ReasonTemplateRefused, fmt.Sprintf(
		"spec.remediationTemplate: Drover creates and deletes nothing by a %s: %s", kind.GroupKind(), why)}
}

// IsRequestFor reports whether a remediation request was created for a Machine from a template of some kind: the Machine owns it by its UID, and
// RequestAnnotation has this UID. Requests of machine-api-operator, and of the versions of Drover before that annotation, have the template's kind
// in an annotation instead.
func IsRequestFor(request metav1.Object, machine *machinev1beta1.Machine, template schema.GroupKind) bool {
	if !slices.ContainsFunc(request.GetOwnerReferences(), func(owner metav1.OwnerReference) bool {
		return owner.UID == machine.UID && owner.Kind == "Machine"
	}) {
		return false
	}
	annotations := request.GetAnnotations()
	if uid, ok := annotations[RequestAnnotation]; ok {
		return uid == string(machine.UID)
	}
	return annotations[machinev1beta1.TemplateClonedFromGroupKindAnnotation] == template.String()
}
