package healthcheck

import (
	"context"
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// clusterScoped is a kind of requests that is not namespaced.
var clusterScoped = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "ClusterRemediation"}

// ownedBy returns a reference to a Machine as the owner of a request.
func ownedBy(machine string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "Machine", Name: machine, UID: uid}
}

const clonedFrom = "machine.openshift.io/cloned-from-groupkind"

// Only a request that a MachineHealthCheck has created for this very Machine counts, and is deleted when the Machine is healthy. Any other one of the
// Machine's name stays, and no second one can be created.
func TestReconcile_RequestsOfOthers(t *testing.T) {
	template, own := "Metal3RemediationTemplate.infrastructure.cluster.x-k8s.io", []metav1.OwnerReference{ownedBy("m0", "uid-of-m0")}
	for name, c := range map[string]struct {
		owners      []metav1.OwnerReference
		annotations map[string]string
		own         bool
	}{
		"no owner":                 {},
		"no owner, and annotated":  {annotations: map[string]string{plan.RequestAnnotation: "uid-of-m0", clonedFrom: template}},
		"the Machine owns it":      {owners: own},
		"an earlier Machine":       {[]metav1.OwnerReference{ownedBy("m0", "older")}, map[string]string{plan.RequestAnnotation: "older"}, false},
		"annotated for another":    {own, map[string]string{plan.RequestAnnotation: "older", clonedFrom: template}, false},
		"another kind of owner":    {[]metav1.OwnerReference{{Kind: "NodeHealthCheck", UID: "uid-of-m0"}}, map[string]string{clonedFrom: template}, false},
		"from another template":    {own, map[string]string{clonedFrom: "OtherTemplate.example.com"}, false},
		"of this version":          {own, map[string]string{plan.RequestAnnotation: "uid-of-m0"}, true},
		"of an earlier version":    {own, map[string]string{clonedFrom: template}, true},
		"with another owner added": {append([]metav1.OwnerReference{ownedBy("x", "x")}, own...), map[string]string{clonedFrom: template}, true},
	} {
		t.Run(name, func(t *testing.T) {
			request := newRequestNamed("m0", c.owners...)
			request.SetAnnotations(c.annotations)
			s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"), request)...)
			s.mustReconcile("c", statusC)
			if c.own {
				s.expectStatus("c", "2 1 1", "RemediationProgressing=True/Remediating", requestCreated+"True")
			} else {
				s.expectStatus("c", "2 1 1", "RemediationProgressing=False/ExternalRemediationRequestCreationFailed",
					requestCreated+"False/ExternalRemediationRequestCreationFailed")
				if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning ExternalRemediationRequestFailed" {
					t.Errorf("emitted %s", got)
				}
			}
			edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
			s.reconcileUntilQuiet("c")
			if left := s.request("m0") != nil; left == c.own {
				t.Errorf("the request is left: %t", left)
			}
			s.expectStatus("c", "2 2 2", nothingToDo, requestCreated)
		})
	}
}

// A request that has changed since it was listed is looked at again before it is deleted.
func TestDeleteRequests_Changed(t *testing.T) {
	s := newFixture(t, Options{}, append(newObjects("uw", byTemplateOf("reboot")), newTemplate("reboot"))...)
	s.reconcileUntilQuiet("c")
	edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
	s.options.Live = &changing{Reader: s.client, t: t, client: s.client}
	s.restart()
	result := s.mustReconcile("c", "update Metal3Remediation/m0, delete Metal3Remediation/m0, "+statusC)
	if result.RequeueAfter != controller.CatchUp || s.request("m0") == nil {
		t.Errorf("requeues after %s, and the request is %v", result.RequeueAfter, s.request("m0"))
	}
}

// TestRequests_List: each kind of the configuration is listed once, at the version that is served, whatever MachineHealthChecks there are.
func TestRequests_List(t *testing.T) {
	request := newRequestNamed("m0", ownedBy("m0", "uid-of-m0"))
	request.SetAnnotations(map[string]string{plan.RequestAnnotation: "uid-of-m0"})
	objects := append(newObjects("uw"), request)
	for _, version := range []string{"v1", "v2", "v3beta1"} {
		objects = append(objects, newCheck("invented-"+version, byTemplateOf("reboot"), func(check *machinev1beta1.MachineHealthCheck) {
			check.Spec.RemediationTemplate.APIVersion = remediations.Group + "/" + version
		}))
	}
	s := newFixture(t, Options{}, objects...)
	lists, mapper := &countingLists{Reader: s.client}, &countingMapper{RESTMapper: s.client.RESTMapper()}
	requests := &Requests{
		Cache: s.client, Live: lists, Client: &mapped{s.client, mapper}, Kinds: plan.DefaultTemplateKinds(), Absent: &Absent{}, Clock: s.clock,
	}
	for range 3 {
		found, err := requests.List(t.Context(), namespace)
		if err != nil || len(found) != 1 || found[0].UID != "uid-of-m0" {
			t.Errorf("found %+v, error %v", found, err)
		}
	}
	if absent := len(plan.DefaultTemplateKinds()) - 1; lists.count != 3 || mapper.failed != absent {
		t.Errorf("%d lists, and kinds that are not served were looked up %d times", lists.count, mapper.failed)
	}
	mapper.failed = 0
	s.advance(absentTime)
	if _, err := requests.List(t.Context(), namespace); err != nil || mapper.failed == 0 {
		t.Errorf("a kind that is served later is not found: %v", err)
	}
	mapper.failed = 0
	kind := plan.DefaultTemplateKinds()[1]
	_, created := plan.RequestKindOf(kind)
	requests.Absent.remove(created)
	if _, err := requests.List(t.Context(), namespace); err != nil || mapper.failed != 1 {
		t.Errorf("a kind of which a request was created is looked up %d times, %v", mapper.failed, err)
	}
}

// countingLists counts lists.
type countingLists struct {
	client.Reader

	count int
}

func (c *countingLists) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	c.count++
	return c.Reader.List(ctx, list, options...)
}

// mapped is a client with another mapper.
type mapped struct {
	client.Client

	mapper meta.RESTMapper
}

func (m *mapped) RESTMapper() meta.RESTMapper { return m.mapper }

// countingMapper counts the kinds that it does not find.
type countingMapper struct {
	meta.RESTMapper

	failed int
}

func (c *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	mapping, err := c.RESTMapper.RESTMapping(kind, versions...)
	if err != nil {
		c.failed++
	}
	return mapping, err
}

// changing has another writer take the owner from the request m0 once it was listed.
type changing struct {
	client.Reader

	t      *testing.T
	client client.Client
}

func (c *changing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	err := c.Reader.List(ctx, list, options...)
	if _, ok := list.(*metav1.PartialObjectMetadataList); ok && err == nil {
		request := newRequestNamed("m0")
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			c.t.Fatal(err)
		}
		request.SetOwnerReferences(nil)
		if err := c.client.Update(ctx, request); err != nil {
			c.t.Fatal(err)
		}
	}
	return err
}

// Nothing is listed, created or deleted by a template of a kind that is not allowed, whatever exists.
func TestReconcile_TemplateKindRefused(t *testing.T) {
	for name, c := range map[string]struct {
		apiVersion, kind string
		allowed          []string
	}{
		"Nodes":                      {"v1", "NodeTemplate", nil},
		"Pods, which exist":          {"v1", "PodTemplate", nil},
		"Nodes, configured":          {"v1", "NodeTemplate", []string{"NodeTemplate"}},
		"Machines":                   {"machine.openshift.io/v1beta1", "MachineTemplate", []string{"MachineTemplate.machine.openshift.io"}},
		"NodeGroups":                 {"drover.dev/v1alpha1", "NodeGroupTemplate", []string{"NodeGroupTemplate.drover.dev"}},
		"NodeMaintenances":           {"nodemaintenance.medik8s.io/v1beta1", "NodeMaintenanceTemplate", nil},
		"Leases":                     {"coordination.k8s.io/v1", "LeaseTemplate", []string{"LeaseTemplate.coordination.k8s.io"}},
		"an apiVersion of two parts": {"a/b/v1", "NodeTemplate", nil},
		"a kind that is not named":   {"example.com/v1", "RebootTemplate", nil},
		"metal3, which is not named": {remediations.String(), "Metal3RemediationTemplate", []string{}},
		"not namespaced":             {"example.com/v1", "ClusterRemediationTemplate", []string{"ClusterRemediationTemplate.example.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{TemplateKinds: c.allowed}, newObjects("uw", byTemplateOf("reboot"), func(check *machinev1beta1.MachineHealthCheck) {
				check.Spec.RemediationTemplate.APIVersion, check.Spec.RemediationTemplate.Kind = c.apiVersion, c.kind
			})...)
			// Machines are read anyway.
			for _, kind := range []string{
				"Node", "Pod", "NodeGroup", "NodeMaintenance", "Lease", "Reboot", "ClusterRemediation", "Metal3Remediation",
			} {
				s.Fail["list "+kind+"List"] = errors.New("it is listed")
			}
			if result := s.mustReconcile("c", statusC); result.RequeueAfter != controller.RetryDenied {
				t.Errorf("requeues after %s", result.RequeueAfter)
			}
			reason := "False/RemediationTemplateRefused"
			if name == "an apiVersion of two parts" {
				reason = "False/ExternalRemediationTemplateNotFound"
			}
			s.expectStatus("c", "2 1 1", templateFound+reason, "RemediationProgressing="+reason, requestCreated)
			s.mustReconcile("c", "")
		})
	}
}
