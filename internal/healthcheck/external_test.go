package healthcheck

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

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
)

const (
	templateFound  = "ExternalRemediationTemplateAvailable="
	requestCreated = "ExternalRemediationRequestAvailable="
	createM0       = "create Metal3Remediation/m0"
)

// failingCache is a cache whose lists of Machines fail after so many.
type failingCache struct {
	client.Reader

	after int
}

func (f *failingCache) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*machinev1beta1.MachineList); ok {
		if f.after--; f.after < 0 {
			return errors.New("no answer")
		}
	}
	return f.Reader.List(ctx, list, options...)
}

var remediations = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}

func byTemplateOf(name string) func(*machinev1beta1.MachineHealthCheck) {
	return func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.RemediationTemplate = &corev1.ObjectReference{
			APIVersion: remediations.String(), Kind: "Metal3RemediationTemplate", Name: name, Namespace: "ignored",
		}
	}
}

func newTemplate(name string) *unstructured.Unstructured {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}, "name": "ignored"},
		"spec":     map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(1)}},
	}}}}
	template.SetGroupVersionKind(remediations.WithKind("Metal3RemediationTemplate"))
	template.SetNamespace(namespace)
	template.SetName(name)
	return template
}

func (s *fixture) request(name string) *unstructured.Unstructured {
	s.t.Helper()
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(remediations.WithKind("Metal3Remediation"))
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, request)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return request
}

func TestReconcile_ByTemplate(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uwf", byTemplateOf("reboot")), newTemplate("reboot"))...)
	// One in the phase Failed comes first, and is remediated in the same way.
	if result := s.mustReconcile("c", "create Metal3Remediation/m2, "+statusC); result.RequeueAfter != controller.CatchUp {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.mustReconcile("c", createM0)
	s.expectStatus("c", "3 1 1", "RemediationAllowed=True", "RemediationProgressing=True/Remediating", templateFound+"True", requestCreated+"True")
	request := s.request("m0")
	owner := request.GetOwnerReferences()[0]
	strategy, _, _ := unstructured.NestedString(request.Object, "spec", "strategy", "type")
	annotations := request.GetAnnotations()
	if owner.UID != "uid-of-m0" || owner.Kind != "Machine" || owner.Controller != nil || strategy != "Reboot" || request.GetLabels()["a"] != "b" ||
		annotations["c"] != "d" || annotations["drover.dev/remediation-for"] != "uid-of-m0" ||
		annotations["machine.openshift.io/cloned-from-name"] != "reboot" ||
		annotations["machine.openshift.io/cloned-from-groupkind"] != "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io" {
		t.Errorf("%v", request.Object)
	}
	s.mustReconcile("c", "")
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.mustReconcile("c", "delete Metal3Remediation/m0, "+statusC)
	s.expectStatus("c", "3 2 2", "RemediationProgressing=True/Remediating", requestCreated+"True")
	if s.request("m0") != nil || s.request("m2") == nil {
		t.Error("only the request for the healthy one must be deleted")
	}
	edit(s, newMachine("m2", ""), func(m *machinev1beta1.Machine) { m.Status.Phase = new("Running") })
	s.mustReconcile("c", "delete Metal3Remediation/m2, "+statusC)
	s.expectStatus("c", "3 3 3", nothingToDo, templateFound+"True", requestCreated)
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal ExternalRemediationRequested, "+
		"Normal ExternalRemediationRequested" {
		t.Errorf("emitted %s", got)
	}
	if got := s.deletedMachines("m0", "m1", "m2"); got != "" {
		t.Errorf("deleted %s", got)
	}
}

// machine-api-operator never stores what it finds out about the template.
func TestReconcile_TemplateMissing(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("ww", byTemplateOf("reboot"))...)
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 2 2", templateFound+"False/ExternalRemediationTemplateNotFound", requestCreated, nothingToDo)
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 1", "RemediationProgressing=False/ExternalRemediationTemplateNotFound")
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning ExternalRemediationRequestFailed" {
		t.Errorf("emitted %s", got)
	}
	if err := s.client.Create(t.Context(), newTemplate("reboot")); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile("c", createM0+", "+statusC)
	s.expectStatus("c", "2 1 1", templateFound+"True", requestCreated+"True", "RemediationProgressing=True/Remediating")
	s.mustReconcile("c", "")
}

func TestReconcile_TemplateChanges(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("w", byTemplateOf("reboot")), newTemplate("reboot"))...)
	s.reconcileUntilQuiet("c")
	s.expectStatus("c", "1 1 1", templateFound+"True")
	edit(s, newCheck("c"), byTemplateOf("other"))
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "1 1 1", templateFound+"False/ExternalRemediationTemplateNotFound")
	edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Spec.RemediationTemplate = nil })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "1 1 1", templateFound)
}

func TestReconcile_InvalidTemplateReference(t *testing.T) {
	for name, change := range map[string]func(*corev1.ObjectReference){
		"a kind without the suffix": func(r *corev1.ObjectReference) { r.Kind = "Metal3Remediation" },
		"only the suffix":           func(r *corev1.ObjectReference) { r.Kind = "Template" },
		"no version":                func(r *corev1.ObjectReference) { r.APIVersion = "" },
		"no name":                   func(r *corev1.ObjectReference) { r.Name = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"))...)
			edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { change(c.Spec.RemediationTemplate) })
			s.mustReconcile("c", statusC)
			s.expectStatus("c", "2 1 1", templateFound+"False/ExternalRemediationTemplateNotFound",
				"RemediationProgressing=False/ExternalRemediationTemplateNotFound")
			s.mustReconcile("c", "")
		})
	}
}

func TestCreateRequest_Errors(t *testing.T) {
	resource := remediations.WithResource("metal3remediations").GroupResource()
	kind := remediations.WithKind("Metal3Remediation").GroupKind()
	forbidden := apierrors.NewForbidden(resource, "m0", errors.New("no"))
	noKind := &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: []string{"v1beta1"}}
	down := errors.New("no answer")
	for name, c := range map[string]struct {
		at       string
		err      error
		fails    bool
		progress string
		template string
		created  string
	}{
		"creation forbidden": {"create Metal3Remediation", forbidden, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"no such kind to create": {"create Metal3Remediation", noKind, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"an error": {"create Metal3Remediation", down, true, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"list forbidden": {"list Metal3RemediationList", forbidden, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"no such kind to list": {"list Metal3RemediationList", noKind, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"the list fails": {"list Metal3RemediationList", down, true, "False/ExternalRemediationRequestCreationFailed", "", ""},
		"template forbidden": {"get Metal3RemediationTemplate", forbidden, false,
			"False/ExternalRemediationTemplateNotFound", "False/ExternalRemediationTemplateNotFound", ""},
		"no such kind of template": {"get Metal3RemediationTemplate", noKind, false, "False/ExternalRemediationTemplateNotFound",
			"False/ExternalRemediationTemplateNotFound", ""},
		"the template cannot be read": {"get Metal3RemediationTemplate", down, true, "False/RemediationFailed", "", ""},
		"created by another client": {"create Metal3Remediation", apierrors.NewAlreadyExists(resource, "m0"), false, "True/NothingToRemediate",
			"True", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"))...)
			s.Fail[c.at] = c.err
			result, _, err := s.reconcile("c")
			if (err != nil) != c.fails || err == nil && result.RequeueAfter < time.Second {
				t.Errorf("error %v, requeues after %s", err, result.RequeueAfter)
			}
			s.expectStatus("c", "2 1 1", "RemediationProgressing="+c.progress, templateFound+c.template, requestCreated+c.created)
			if _, writes, _ := s.reconcile("c"); strings.Contains(writes, statusC) {
				t.Errorf("the second reconciliation wrote %s", writes)
			}
			delete(s.Fail, c.at)
			s.reconcileUntilQuiet("c")
			s.expectStatus("c", "2 1 1", "RemediationProgressing=True/Remediating", templateFound+"True", requestCreated+"True")
		})
	}
}

func TestCreateRequest_TemplateWithoutContent(t *testing.T) {
	template := newTemplate("reboot")
	unstructured.RemoveNestedField(template.Object, "spec", "template")
	s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), template)...)
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "2 1 1", templateFound+"True", requestCreated+"False/ExternalRemediationRequestCreationFailed")
	s.mustReconcile("c", "")
}

// newRequestNamed returns a request that Drover has not created.
func newRequestNamed(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(remediations.WithKind("Metal3Remediation"))
	request.SetNamespace(namespace)
	request.SetName(name)
	request.SetOwnerReferences(owners)
	return request
}

// The controller of the requests may delay the deletion by a finalizer.
func TestDeleteRequests_Once(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"))...)
	s.reconcileUntilQuiet("c")
	request := s.request("m0")
	request.SetFinalizers([]string{"example.com/finalizer"})
	if err := s.client.Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.mustReconcile("c", "delete Metal3Remediation/m0, "+statusC)
	s.mustReconcile("c", "")
}

func TestDeleteRequests_Errors(t *testing.T) {
	resource := remediations.WithResource("metal3remediations").GroupResource()
	for name, c := range map[string]struct {
		err     error
		fails   bool
		created string
	}{
		"gone":          {apierrors.NewNotFound(resource, "m0"), false, ""},
		"another":       {apierrors.NewConflict(resource, "m0", errors.New("uid")), false, ""},
		"no permission": {apierrors.NewForbidden(resource, "m0", errors.New("no")), false, "False/ExternalRemediationRequestCreationFailed"},
		"an error":      {errors.New("no answer"), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"))...)
			s.reconcileUntilQuiet("c")
			edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
			s.Fail["delete Metal3Remediation"] = c.err
			if _, _, err := s.reconcile("c"); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			s.expectStatus("c", "2 2 2", requestCreated+c.created)
			delete(s.Fail, "delete Metal3Remediation")
			s.reconcileUntilQuiet("c")
			s.expectStatus("c", "2 2 2", requestCreated, nothingToDo)
			if s.request("m0") != nil {
				t.Error("the request still exists")
			}
		})
	}
}

func TestReconcile_ByTemplateNotAllowed(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uuw", byTemplateOf("reboot"), limit("1")), newTemplate("reboot"))...)
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "3 1 0", "RemediationAllowed=False/TooManyUnhealthy", templateFound+"True", requestCreated)
	s.mustReconcile("c", "")
	if s.request("m0") != nil || s.request("m1") != nil {
		t.Error("requests are created although remediation is not allowed")
	}
}

func bareMetal(c *machinev1beta1.MachineHealthCheck) {
	c.Annotations = map[string]string{plan.StrategyAnnotation: plan.BareMetalStrategy}
}

func TestReconcile_ByAnnotation(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uwf", bareMetal)...)
	s.pauseCache()
	s.mustReconcile("c", "delete Machine/m2, "+statusC)
	s.resumeCache()
	s.pauseCache()
	s.mustReconcile("c", "patch Machine/m0")
	s.mustReconcile("c", "")
	s.resumeCache()
	s.mustReconcile("c", "")
	s.expectStatus("c", "3 1 1", "RemediationProgressing=True/Remediating")
	machine := newMachine("m0", "")
	err := s.client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)
	if err != nil || !metav1.HasAnnotation(machine.ObjectMeta, plan.ExternalAnnotation) {
		t.Errorf("%v, %v", machine.Annotations, err)
	}
	// The Node is ready again, and the annotation has not been removed yet.
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "3 1 1", nothingToDo)
	edit(s, machine, func(m *machinev1beta1.Machine) { delete(m.Annotations, plan.ExternalAnnotation) })
	s.mustReconcile("c", statusC)
	s.expectStatus("c", "3 2 2", nothingToDo)
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Normal ExternalAnnotationAdded" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_AnnotationForbidden(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw", bareMetal)...)
	s.Fail["patch Machine"] = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m0", errors.New("no"))
	if result := s.mustReconcile("c", "patch Machine/m0, "+statusC); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 1 1", "RemediationProgressing=False/RemediationFailed")
	s.mustReconcile("c", "patch Machine/m0")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning ExternalAnnotationFailed" {
		t.Errorf("emitted %s", got)
	}
	delete(s.Fail, "patch Machine")
	s.reconcileUntilQuiet("c")
	s.expectStatus("c", "2 1 1", "RemediationProgressing=True/Remediating")
	if got := s.emitted(); got != "Normal ExternalAnnotationAdded" {
		t.Errorf("emitted %s", got)
	}
}

func TestIsUnavailable(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {apierrors.NewNotFound(resource, "x"), true}, {apierrors.NewForbidden(resource, "x", errors.New("no")), true},
		{&meta.NoKindMatchError{}, true}, {errors.New("x"), false}, {apierrors.NewInternalError(errors.New("x")), false},
	} {
		if got := isUnavailable(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
