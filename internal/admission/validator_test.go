package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// store returns an API server or a cache with some objects. The requests in fails fail.
func store(t *testing.T, fails map[string]error, objects ...client.Object) client.Reader {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, medik8s.AddToScheme, kubevirt.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption) error {
			if err := fails[fmt.Sprintf("get %T", object)]; err != nil {
				return err
			}
			return c.Get(ctx, key, object, o...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
			if err := fails[fmt.Sprintf("list %T", list)]; err != nil {
				return err
			}
			return c.List(ctx, list, o...)
		},
	}).Build()
}

// fakeGuard always gives the same answer.
type fakeGuard struct {
	denial string
	err    error
}

func (g *fakeGuard) Lock(ctx context.Context) (context.Context, func()) { return ctx, func() {} }

func (g *fakeGuard) Applies(node *corev1.Node) bool { return node.Labels["guarded"] != "" }

func (g *fakeGuard) Check(context.Context, *corev1.Node) (string, error) {
	return g.denial, g.err
}

func node(name string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		n.Labels[label] = "yes"
	}
	return n
}

func medik8sOf(name, node string) *medik8s.NodeMaintenance {
	return &medik8s.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: medik8s.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: medik8s.NodeMaintenanceSpec{NodeName: node},
	}
}

func kubevirtOf(name, node string) *kubevirt.NodeMaintenance {
	return &kubevirt.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: kubevirt.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node},
	}
}

func raw(t *testing.T, object any) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

func creation(t *testing.T, object any) admission.Request {
	t.Helper()
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: raw(t, object)}}
}

// cluster has the objects that a webhook reads.
type cluster struct {
	cached, live []client.Object
	fails        map[string]error
	// notSynced reports that no cache of NodeMaintenances is synced.
	notSynced bool
	guard     *fakeGuard
}

func (s cluster) validator(t *testing.T) *Validator {
	t.Helper()
	if s.guard == nil {
		s.guard = &fakeGuard{}
	}
	cached, live := store(t, s.fails, s.cached...), store(t, s.fails, s.live...)
	return &Validator{
		Group: maintenance.Medik8s(), Nodes: cached, Live: live, Guard: s.guard,
		Finder: &Finder{Cache: cached, Live: live, Cached: func(string) bool { return !s.notSynced }},
	}
}

func TestValidator_Create(t *testing.T) {
	const claimed = "invalid nodeName, a NodeMaintenance for node a already exists"
	const quorum = "can not put master/control-plane node into maintenance at this moment, " +
		"disrupting node a will violate etcd quorum: it is the last one"
	const badKey = `spec.drain.podRules[0].podSelector: key: Invalid value: "a b": name part must consist of ` +
		`alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  ` +
		`or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	const notASpec = "this NodeMaintenance cannot be read: json: cannot unmarshal string into Go struct field "
	everywhere := func(objects ...client.Object) cluster { return cluster{cached: objects, live: objects} }
	bad := medik8sOf("x", "a")
	bad.Spec.Drain = &medik8s.DrainSpec{PodRules: []medik8s.PodRule{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": "c"}}}}}
	dry := medik8sOf("x", "a")
	dry.Spec.Drain = &medik8s.DrainSpec{DryRun: true}
	denying := func(s cluster) cluster {
		s.guard = &fakeGuard{denial: "it is the last one"}
		return s
	}
	notSynced := everywhere(node("a"), medik8sOf("other", "a"))
	notSynced.notSynced, notSynced.cached = true, []client.Object{node("a")}
	for name, c := range map[string]struct {
		cluster cluster
		object  any
		want    string // empty for allowed
	}{
		"the node exists":                     {everywhere(node("a")), medik8sOf("x", "a"), ""},
		"no node":                             {everywhere(node("b")), medik8sOf("x", "a"), "invalid nodeName, no node with name a found"},
		"no name":                             {everywhere(), medik8sOf("x", ""), "invalid nodeName, no node with name  found"},
		"a node that is not in the cache yet": {cluster{live: []client.Object{node("a")}}, medik8sOf("x", "a"), ""},
		"another one of the same group":       {everywhere(node("a"), medik8sOf("other", "a")), medik8sOf("x", "a"), claimed},
		"one of the other group":              {everywhere(node("a"), kubevirtOf("other", "a")), medik8sOf("x", "a"), claimed},
		"those of other nodes":                {everywhere(node("a"), medik8sOf("o", "b"), kubevirtOf("o", "c")), medik8sOf("x", "a"), ""},
		"one that is deleted, and still in the cache": {
			cluster{cached: []client.Object{node("a"), medik8sOf("o", "a")}, live: []client.Object{node("a")}}, medik8sOf("x", "a"), "",
		},
		"one that names another node now": {
			cluster{cached: []client.Object{node("a"), medik8sOf("o", "a")}, live: []client.Object{node("a"), medik8sOf("o", "b")}}, medik8sOf("x", "a"), "",
		},
		"caches that are not synced":  {notSynced, medik8sOf("x", "a"), claimed},
		"the guard denies":            {denying(everywhere(node("a", "guarded"))), medik8sOf("x", "a"), quorum},
		"the guard does not apply":    {denying(everywhere(node("a"))), medik8sOf("x", "a"), ""},
		"a dry run is not checked":    {denying(everywhere(node("a", "guarded"))), dry, ""},
		"the node is checked first":   {denying(everywhere(kubevirtOf("o", "a"))), bad, "invalid nodeName, no node with name a found"},
		"then other NodeMaintenances": {denying(everywhere(node("a", "guarded"), kubevirtOf("o", "a"))), bad, claimed},
		"then the guard":              {denying(everywhere(node("a", "guarded"))), bad, quorum},
		"then the rules":              {everywhere(node("a")), bad, badKey},
		"an invalid object":           {everywhere(node("a")), map[string]any{"spec": "a"}, notASpec + "object.spec of type v1beta1.NodeMaintenanceSpec"},
		"an invalid drain": {everywhere(node("a")), map[string]any{"spec": map[string]any{"drain": "x"}},
			notASpec + "NodeMaintenanceSpec.spec.drain of type v1beta1.DrainSpec"},
		"one of the older group": {everywhere(node("a")), kubevirtOf("x", "a"), ""},
	} {
		response := c.cluster.validator(t).Handle(t.Context(), creation(t, c.object))
		if response.Allowed != (c.want == "") || response.Result.Message != c.want {
			t.Errorf("%s: %t, %q; want %q", name, response.Allowed, response.Result.Message, c.want)
		}
		if !response.Allowed && response.Result.Code != http.StatusForbidden {
			t.Errorf("%s: code %d", name, response.Result.Code)
		}
	}
}

func TestValidator_DeniesWhenLookupFails(t *testing.T) {
	down := errors.New("no answer")
	objects := []client.Object{node("a", "guarded"), medik8sOf("o", "a")}
	free := objects[:1]
	for name, s := range map[string]cluster{
		"the node":          {cached: free, live: free, fails: map[string]error{"get *v1.Node": down}},
		"the list":          {cached: free, live: free, fails: map[string]error{"list *v1beta1.NodeMaintenanceList": down}},
		"the confirmation":  {cached: objects, live: objects, fails: map[string]error{"get *unstructured.Unstructured": down}},
		"the control plane": {cached: free, live: free, guard: &fakeGuard{err: down}},
		"the list before the caches are synced": {
			cached: free, live: free, notSynced: true, fails: map[string]error{"list *unstructured.UnstructuredList": down},
		},
	} {
		response := s.validator(t).Handle(t.Context(), creation(t, medik8sOf("x", "a")))
		message := response.Result.Message
		if response.Allowed || !strings.Contains(message, "please try again") || !strings.Contains(message, "no answer") {
			t.Errorf("%s: %t, %q", name, response.Allowed, message)
		}
	}
}

// A check that takes too long answers before the timeout of the API server, whose message would have no reason.
func TestValidator_Timeout(t *testing.T) {
	v := cluster{}.validator(t)
	v.Nodes = hanging{v.Nodes}
	v.timeout = time.Millisecond
	response := v.Handle(t.Context(), creation(t, medik8sOf("x", "a")))
	if response.Allowed || !strings.Contains(response.Result.Message, context.DeadlineExceeded.Error()) {
		t.Errorf("%t, %q", response.Allowed, response.Result.Message)
	}
}

type hanging struct{ client.Reader }

func (hanging) Get(ctx context.Context, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestValidator_Update(t *testing.T) {
	before := medik8sOf("x", "a")
	changed := func(change func(*medik8s.NodeMaintenance)) *medik8s.NodeMaintenance {
		after := before.DeepCopy()
		change(after)
		return after
	}
	rule := func(operator metav1.LabelSelectorOperator) *medik8s.DrainSpec {
		return &medik8s.DrainSpec{PodRules: []medik8s.PodRule{{PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: operator}},
		}}}}
	}
	for name, c := range map[string]struct {
		after *medik8s.NodeMaintenance
		want  string
	}{
		"nothing":     {before, ""},
		"a finalizer": {changed(func(m *medik8s.NodeMaintenance) { m.Finalizers = []string{"x"} }), ""},
		"the status":  {changed(func(m *medik8s.NodeMaintenance) { m.Status.Phase = medik8s.PhaseFailed }), ""},
		"the reason":  {changed(func(m *medik8s.NodeMaintenance) { m.Spec.Reason = "x" }), ""},
		"the node":    {changed(func(m *medik8s.NodeMaintenance) { m.Spec.NodeName = "b" }), "updating spec.NodeName isn't allowed"},
		"rules":       {changed(func(m *medik8s.NodeMaintenance) { m.Spec.Drain = rule(metav1.LabelSelectorOpExists) }), ""},
		"invalid rules": {changed(func(m *medik8s.NodeMaintenance) { m.Spec.Drain = rule("Unknown") }),
			`spec.drain.podRules[0].podSelector: "Unknown" is not a valid label selector operator`},
		"while it is deleted": {changed(func(m *medik8s.NodeMaintenance) {
			m.Spec.Drain, m.DeletionTimestamp = rule("Unknown"), &metav1.Time{Time: time.Now()}
		}), ""},
	} {
		// An update needs no lookups.
		v := &Validator{Group: maintenance.Medik8s()}
		request := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
			Operation: admissionv1.Update, Object: raw(t, c.after), OldObject: raw(t, before),
		}}
		response := v.Handle(t.Context(), request)
		if response.Allowed != (c.want == "") || response.Result.Message != c.want {
			t.Errorf("%s: %t, %q; want %q", name, response.Allowed, response.Result.Message, c.want)
		}
	}
}

// TestValidator_Limits: no NodeMaintenance may ask for what an administrator has disabled, unless it is older than the setting.
func TestValidator_Limits(t *testing.T) {
	drain := func(force bool, unreachable medik8s.UnreachablePolicy, reason string) *medik8s.NodeMaintenance {
		m := medik8sOf("x", "a")
		m.Spec.Reason, m.Spec.Drain = reason, &medik8s.DrainSpec{Force: force, Unreachable: unreachable, Deadline: &metav1.Duration{Duration: time.Minute}}
		return m
	}
	const noForce = "spec.drain.force: Forbidden: maintenance.force is Off in Drover's configuration"
	const noTaint = "spec.drain.unreachable: Forbidden: OutOfService is not available, since maintenance.outOfService is Off in Drover's configuration"
	both, neither := plan.Limits{NoForce: true, NoOutOfService: true}, plan.Limits{}
	plain, forced, tainted := drain(false, "", ""), drain(true, "", ""), drain(false, medik8s.UnreachableOutOfService, "")
	for name, c := range map[string]struct {
		limits        plan.Limits
		before, after *medik8s.NodeMaintenance
		want          string
	}{
		"force is on":                                    {neither, nil, forced, ""},
		"out of service is on":                           {neither, nil, tainted, ""},
		"force is off":                                   {both, nil, forced, noForce},
		"out of service is off":                          {both, nil, tainted, noTaint},
		"neither is requested":                           {both, nil, plain, ""},
		"force is requested later":                       {both, plain, forced, noForce},
		"out of service is requested later":              {both, plain, tainted, noTaint},
		"older than the setting":                         {both, forced, drain(true, "", "why"), ""},
		"older than the setting, not requested any more": {both, forced, plain, ""},
	} {
		s := cluster{cached: []client.Object{node("a")}, live: []client.Object{node("a")}}
		v := s.validator(t)
		v.Limits = c.limits
		request := creation(t, c.after)
		if c.before != nil {
			request.Operation, request.OldObject = admissionv1.Update, raw(t, c.before)
		}
		if response := v.Handle(t.Context(), request); response.Allowed != (c.want == "") || response.Result.Message != c.want {
			t.Errorf("%s: %t, %q; want %q", name, response.Allowed, response.Result.Message, c.want)
		}
	}
}

func TestValidator_OtherRequests(t *testing.T) {
	v := &Validator{Group: maintenance.Kubevirt()}
	status := creation(t, medik8sOf("x", "a"))
	status.SubResource = "status"
	deletion := creation(t, medik8sOf("x", "a"))
	deletion.Operation = admissionv1.Delete
	for name, request := range map[string]admission.Request{"a subresource": status, "a deletion": deletion} {
		if response := v.Handle(t.Context(), request); !response.Allowed {
			t.Errorf("%s: %q", name, response.Result.Message)
		}
	}
}

func TestPath(t *testing.T) {
	for group, want := range map[*maintenance.Group]string{
		maintenance.Medik8s():  "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
		maintenance.Kubevirt(): "/validate-nodemaintenance-kubevirt-io-v1beta1-nodemaintenance",
	} {
		if got := Path(group); got != want {
			t.Errorf("%s: %s", group.Name, got)
		}
	}
}
