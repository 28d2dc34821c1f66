package simulation

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/status"
)

// patch patches an object of the model as a client does.
func patch(s *server, k *kind, key, part string, how types.PatchType, body string) error {
	_, err := s.change(request{who: "test"}, k, key, part, guards{}, func(before client.Object) (client.Object, error) {
		return patched(k, before, how, []byte(body))
	})
	return err
}

func fresh() *machinev1beta1.Machine {
	return &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "m", Finalizers: []string{"f"}}}
}

func TestServerGuardsAndParts(t *testing.T) {
	s := newServer()
	made, err := s.create(request{who: "test"}, fresh())
	if err != nil || made.GetResourceVersion() != "1" || made.GetGeneration() != 1 {
		t.Fatalf("%v: %+v", err, made)
	}
	if _, err := s.create(request{who: "test"}, made); !apierrors.IsAlreadyExists(err) {
		t.Errorf("it is made twice: %v", err)
	}
	for _, c := range []struct {
		part, body string
		class      status.Class
		version    string
		generation int64
	}{
		{"", `{"metadata":{"resourceVersion":"9","labels":{"a":"b"}}}`, status.Stale, "1", 1},
		{"", `{"metadata":{"uid":"other","labels":{"a":"b"}}}`, status.Stale, "1", 1},
		{"", `{"metadata":{"resourceVersion":"1","labels":{"a":"b"}}}`, status.OK, "2", 1},
		{"", `{"metadata":{"labels":{"a":"b"}}}`, status.OK, "2", 1},
		{"", `{"status":{"phase":"Running"}}`, status.OK, "2", 1},
		{"status", `{"metadata":{"labels":{"a":"c"}},"status":{"phase":"Running"}}`, status.OK, "3", 1},
		{"", `{"spec":{"providerID":"x"}}`, status.OK, "4", 2},
	} {
		if class := status.Classify(patch(s, machineKind, "n/m", c.part, types.MergePatchType, c.body)); class != c.class {
			t.Errorf("%s %s: %s, want %s", c.part, c.body, class, c.class)
		}
		if now := s.get(machineKind, "n/m"); now.GetResourceVersion() != c.version || now.GetGeneration() != c.generation || now.GetLabels()["a"] == "c" {
			t.Errorf("after %s %s: %+v", c.part, c.body, now)
		}
	}
}

func TestServerDeletes(t *testing.T) {
	s := newServer()
	_, err := s.create(request{who: "test"}, fresh())
	must(err)
	if err := s.delete(request{}, machineKind, "n/m", guards{uid: new(types.UID("other"))}, nil); !apierrors.IsConflict(err) {
		t.Errorf("another UID: %v", err)
	}
	must(s.delete(request{}, machineKind, "n/m", guards{}, nil))
	if now := s.get(machineKind, "n/m"); now == nil || now.GetDeletionTimestamp() == nil {
		t.Fatalf("with a finalizer: %v", now)
	}
	if err := patch(s, machineKind, "n/m", "", types.MergePatchType, `{"metadata":{"finalizers":["f","g"]}}`); !apierrors.IsForbidden(err) {
		t.Errorf("a new finalizer: %v", err)
	}
	must(patch(s, machineKind, "n/m", "", types.MergePatchType, `{"metadata":{"finalizers":null}}`))
	if now := s.get(machineKind, "n/m"); now != nil {
		t.Errorf("without: %v", now)
	}
	if events := s.events[machineKind]; len(events) != 3 || !events[2].gone || events[2].object.GetResourceVersion() != "3" {
		t.Errorf("%d events: %+v", len(events), events)
	}
}

func TestServerTestsOfJSONPatches(t *testing.T) {
	s := newServer()
	_, err := s.create(request{who: "test"}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	must(err)
	const cordon = `[{"op":"test","path":"/spec/unschedulable","value":null},{"op":"add","path":"/spec/unschedulable","value":true}]`
	for _, want := range []status.Class{status.OK, status.Stale} {
		if class := status.Classify(patch(s, nodeKind, "n", "", types.JSONPatchType, cordon)); class != want {
			t.Errorf("%s, want %s", class, want)
		}
	}
}
