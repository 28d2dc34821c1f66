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
)

const (
	templateFound = "ExternalRemediationTemplateAvailable="
	requestMade   = "ExternalRemediationRequestAvailable="
	createM0      = "create Metal3Remediation/m0"
)

// failing is a cache whose lists of Machines fail after so many.
type failing struct {
	client.Reader

	after int
}

func (f *failing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
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
			APIVersion: remediations.String(), Kind: "Metal3RemediationTemplate", Name: name, Namespace: "is-not-looked-at",
		}
	}
}

func templateOf(name string) *unstructured.Unstructured {
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}, "name": "ignored"},
		"spec":     map[string]any{"strategy": map[string]any{"type": "Reboot", "retryLimit": int64(1)}},
	}}}}
	template.SetGroupVersionKind(remediations.WithKind("Metal3RemediationTemplate"))
	template.SetNamespace(namespace)
	template.SetName(name)
	return template
}

func (s *stage) requestOf(name string) *unstructured.Unstructured {
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

func TestRemediationByTemplate(t *testing.T) {
	s := newStage(t, Options{}, append(crew("uwf", byTemplateOf("reboot")), templateOf("reboot"))...)
	// One that is Failed comes first; that it is makes no difference otherwise.
	if result := s.pass("c", "create Metal3Remediation/m2, "+statusC); result.RequeueAfter != catchUp {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.pass("c", createM0)
	s.expect("c", "3 1 1", "RemediationAllowed=True", "RemediationProgressing=True/Remediating", templateFound+"True", requestMade+"True")
	request := s.requestOf("m0")
	owner := request.GetOwnerReferences()[0]
	strategy, _, _ := unstructured.NestedString(request.Object, "spec", "strategy", "type")
	annotations := request.GetAnnotations()
	if owner.UID != "uid-of-m0" || owner.Kind != "Machine" || owner.Controller != nil || strategy != "Reboot" || request.GetLabels()["a"] != "b" ||
		annotations["c"] != "d" || annotations["machine.openshift.io/cloned-from-name"] != "reboot" ||
		annotations["machine.openshift.io/cloned-from-groupkind"] != "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io" {
		t.Errorf("%v", request.Object)
	}
	s.pass("c", "")
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", "delete Metal3Remediation/m0, "+statusC)
	s.expect("c", "3 2 2", "RemediationProgressing=True/Remediating", requestMade+"True")
	if s.requestOf("m0") != nil || s.requestOf("m2") == nil {
		t.Error("the request for the healthy one is to go, the other is to stay")
	}
	edit(s, machineOf("m2", ""), func(m *machinev1beta1.Machine) { m.Status.Phase = new("Running") })
	s.pass("c", "delete Metal3Remediation/m2, "+statusC)
	s.expect("c", "3 3 3", rested, templateFound+"True", requestMade)
	s.pass("c", "")
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal ExternalRemediationRequested, "+
		"Normal ExternalRemediationRequested" {
		t.Errorf("told %s", got)
	}
	if got := s.deleted("m0", "m1", "m2"); got != "" {
		t.Errorf("deleted %s", got)
	}
}

// What the incumbent finds out about the template is never stored (spec 11.6).
func TestATemplateThatIsNotThere(t *testing.T) {
	s := newStage(t, Options{}, crew("ww", byTemplateOf("reboot"))...)
	if result := s.pass("c", statusC); result.RequeueAfter != retryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 2 2", templateFound+"False/ExternalRemediationTemplateNotFound", requestMade, rested)
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse })
	s.pass("c", statusC)
	s.expect("c", "2 1 1", "RemediationProgressing=False/ExternalRemediationTemplateNotFound")
	s.pass("c", "")
	if got := s.told(); got != "Normal DetectedUnhealthy, Warning ExternalRemediationRequestFailed" {
		t.Errorf("told %s", got)
	}
	if err := s.client.Create(t.Context(), templateOf("reboot")); err != nil {
		t.Fatal(err)
	}
	s.pass("c", createM0+", "+statusC)
	s.expect("c", "2 1 1", templateFound+"True", requestMade+"True", "RemediationProgressing=True/Remediating")
	s.pass("c", "")
}

func TestTheTemplateIsAnother(t *testing.T) {
	s := newStage(t, Options{}, append(crew("w", byTemplateOf("reboot")), templateOf("reboot"))...)
	s.rest("c")
	s.expect("c", "1 1 1", templateFound+"True")
	edit(s, checkOf("c"), byTemplateOf("other"))
	s.pass("c", statusC)
	s.expect("c", "1 1 1", templateFound+"False/ExternalRemediationTemplateNotFound")
	edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Spec.RemediationTemplate = nil })
	s.pass("c", statusC)
	s.expect("c", "1 1 1", templateFound)
}

func TestReferencesThatAreNoTemplates(t *testing.T) {
	for name, change := range map[string]func(*corev1.ObjectReference){
		"a kind of another name": func(r *corev1.ObjectReference) { r.Kind = "Metal3Remediation" },
		"no more than Template":  func(r *corev1.ObjectReference) { r.Kind = "Template" },
		"no version":             func(r *corev1.ObjectReference) { r.APIVersion = "" },
		"no name":                func(r *corev1.ObjectReference) { r.Name = "" },
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"))...)
			edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) { change(c.Spec.RemediationTemplate) })
			s.pass("c", statusC)
			s.expect("c", "2 1 1", templateFound+"False/ExternalRemediationTemplateNotFound",
				"RemediationProgressing=False/ExternalRemediationTemplateNotFound")
			s.pass("c", "")
		})
	}
}

func TestAnswersToARequest(t *testing.T) {
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
		made     string
	}{
		"no permission to make one": {"create Metal3Remediation", forbidden, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"no such kind to make": {"create Metal3Remediation", noKind, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"an error": {"create Metal3Remediation", down, true, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"no permission to list them": {"list Metal3RemediationList", forbidden, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"no such kind to list": {"list Metal3RemediationList", noKind, false, "False/ExternalRemediationRequestCreationFailed", "True",
			"False/ExternalRemediationRequestCreationFailed"},
		"the list fails": {"list Metal3RemediationList", down, true, "False/ExternalRemediationRequestCreationFailed", "", ""},
		"no permission to read the template": {"get Metal3RemediationTemplate", forbidden, false,
			"False/ExternalRemediationTemplateNotFound", "False/ExternalRemediationTemplateNotFound", ""},
		"no such kind of template": {"get Metal3RemediationTemplate", noKind, false, "False/ExternalRemediationTemplateNotFound",
			"False/ExternalRemediationTemplateNotFound", ""},
		"the template cannot be read": {"get Metal3RemediationTemplate", down, true, "False/RemediationFailed", "", ""},
		"somebody was faster": {"create Metal3Remediation", apierrors.NewAlreadyExists(resource, "m0"), false, "True/NothingToRemediate",
			"True", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"))...)
			s.fail[c.at] = c.err
			result, _, err := s.try("c")
			if (err != nil) != c.fails || err == nil && result.RequeueAfter < time.Second {
				t.Errorf("error %v, looks again in %s", err, result.RequeueAfter)
			}
			s.expect("c", "2 1 1", "RemediationProgressing="+c.progress, templateFound+c.template, requestMade+c.made)
			if _, writes, _ := s.try("c"); strings.Contains(writes, statusC) {
				t.Errorf("the second time it wrote %s", writes)
			}
			delete(s.fail, c.at)
			s.rest("c")
			s.expect("c", "2 1 1", "RemediationProgressing=True/Remediating", templateFound+"True", requestMade+"True")
		})
	}
}

func TestATemplateWithoutContent(t *testing.T) {
	template := templateOf("reboot")
	unstructured.RemoveNestedField(template.Object, "spec", "template")
	s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), template)...)
	s.pass("c", statusC)
	s.expect("c", "2 1 1", templateFound+"True", requestMade+"False/ExternalRemediationRequestCreationFailed")
	s.pass("c", "")
}

// requestNamed returns a request that Drover has not made.
func requestNamed(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(remediations.WithKind("Metal3Remediation"))
	request.SetNamespace(namespace)
	request.SetName(name)
	request.SetOwnerReferences(owners)
	return request
}

// machine-api-operator knows a request by name and namespace, whoever made it.
func TestRequestWithoutOwner_IsTheMachines(t *testing.T) {
	s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"), requestNamed("m0"))...)
	s.pass("c", statusC)
	s.expect("c", "2 1 1", "RemediationProgressing=True/Remediating", requestMade+"True")
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", "delete Metal3Remediation/m0, "+statusC)
	if s.requestOf("m0") != nil {
		t.Error("the request of a healthy Machine is still there")
	}
	s.expect("c", "2 2 2", rested, requestMade)
	s.pass("c", "")
}

// An object of the Machine's name need not be the Machine's.
func TestARequestThatIsForAnother(t *testing.T) {
	request := requestNamed("m0", metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: "m0", UID: "older"})
	s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"), request)...)
	s.pass("c", statusC)
	s.expect("c", "2 1 1", "RemediationProgressing=False/ExternalRemediationRequestCreationFailed")
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", statusC)
	if s.requestOf("m0") == nil {
		t.Error("what is another's was deleted")
	}
}

// Somebody outside may take its time to let go of a request.
func TestTheEndOfARequestIsAskedForOnce(t *testing.T) {
	s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"))...)
	s.rest("c")
	request := s.requestOf("m0")
	request.SetFinalizers([]string{"somebody/outside"})
	if err := s.client.Update(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", "delete Metal3Remediation/m0, "+statusC)
	s.pass("c", "")
}

func TestAnswersToTheEndOfARequest(t *testing.T) {
	resource := remediations.WithResource("metal3remediations").GroupResource()
	for name, c := range map[string]struct {
		err   error
		fails bool
		made  string
	}{
		"gone":          {apierrors.NewNotFound(resource, "m0"), false, ""},
		"another":       {apierrors.NewConflict(resource, "m0", errors.New("uid")), false, ""},
		"no permission": {apierrors.NewForbidden(resource, "m0", errors.New("no")), false, "False/ExternalRemediationRequestCreationFailed"},
		"an error":      {errors.New("no answer"), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, append(crew("uw", byTemplateOf("reboot")), templateOf("reboot"))...)
			s.rest("c")
			edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
			s.fail["delete Metal3Remediation"] = c.err
			if _, _, err := s.try("c"); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			s.expect("c", "2 2 2", requestMade+c.made)
			delete(s.fail, "delete Metal3Remediation")
			s.rest("c")
			s.expect("c", "2 2 2", requestMade, rested)
			if s.requestOf("m0") != nil {
				t.Error("it is left")
			}
		})
	}
}

// Requests and what keeps a Machine from being remediated go together.
func TestTemplatesAndLimits(t *testing.T) {
	s := newStage(t, Options{}, append(crew("uuw", byTemplateOf("reboot"), limit("1")), templateOf("reboot"))...)
	s.pass("c", statusC)
	s.expect("c", "3 1 0", "RemediationAllowed=False/TooManyUnhealthy", templateFound+"True", requestMade)
	s.pass("c", "")
	if s.requestOf("m0") != nil || s.requestOf("m1") != nil {
		t.Error("requests are made over the limit")
	}
}

func bareMetal(c *machinev1beta1.MachineHealthCheck) {
	c.Annotations = map[string]string{AnnotationStrategy: StrategyBareMetal}
}

func TestRemediationByAnnotation(t *testing.T) {
	s := newStage(t, Options{}, crew("uwf", bareMetal)...)
	s.stop()
	s.pass("c", "delete Machine/m2, "+statusC)
	s.goOn()
	s.stop()
	s.pass("c", "patch Machine/m0")
	s.pass("c", "")
	s.goOn()
	s.pass("c", "")
	s.expect("c", "3 1 1", "RemediationProgressing=True/Remediating")
	machine := machineOf("m0", "")
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine); err != nil || !has(machine, AnnotationExternal) {
		t.Errorf("%v, %v", machine.Annotations, err)
	}
	// The Node is well again, and not yet given back.
	edit(s, nodeOf("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.pass("c", statusC)
	s.expect("c", "3 1 1", rested)
	edit(s, machine, func(m *machinev1beta1.Machine) { delete(m.Annotations, AnnotationExternal) })
	s.pass("c", statusC)
	s.expect("c", "3 2 2", rested)
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Normal ExternalAnnotationAdded" {
		t.Errorf("told %s", got)
	}
}

func TestAnAnnotationThatCannotBeAdded(t *testing.T) {
	s := newStage(t, Options{}, crew("uw", bareMetal)...)
	s.fail["patch Machine"] = apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, "m0", errors.New("no"))
	if result := s.pass("c", "patch Machine/m0, "+statusC); result.RequeueAfter != retryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 1 1", "RemediationProgressing=False/RemediationFailed")
	s.pass("c", "patch Machine/m0")
	if got := s.told(); got != "Normal DetectedUnhealthy, Warning ExternalAnnotationFailed" {
		t.Errorf("told %s", got)
	}
	delete(s.fail, "patch Machine")
	s.rest("c")
	s.expect("c", "2 1 1", "RemediationProgressing=True/Remediating")
	if got := s.told(); got != "Normal ExternalAnnotationAdded" {
		t.Errorf("told %s", got)
	}
}

func TestWhatIsMissingForGood(t *testing.T) {
	resource := schema.GroupResource{Resource: "things"}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {apierrors.NewNotFound(resource, "x"), true}, {apierrors.NewForbidden(resource, "x", errors.New("no")), true},
		{&meta.NoKindMatchError{}, true}, {errors.New("x"), false}, {apierrors.NewInternalError(errors.New("x")), false},
	} {
		if got := unavailable(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}
