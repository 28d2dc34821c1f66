package history

import (
	"errors"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/internal/apitest"
)

const namespace = "drover-system"

// newStore returns a Store on an API server in memory.
func newStore(t *testing.T, objects ...client.Object) (*Store, *apitest.Requests) {
	t.Helper()
	scheme := apitest.Scheme(t, appsv1.AddToScheme)
	requests := &apitest.Requests{Fail: map[string]error{}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(requests.Interceptors()).Build()
	return &Store{Reader: c, Writer: c, Namespace: namespace, Owner: "test"}, requests
}

// teams returns what the revisions of the group hold, by their number.
func (s *Store) teams(t *testing.T) string {
	t.Helper()
	subject := OfGroup(newGroup("batch", "uid"))
	all, err := List(t.Context(), s.Reader, s.Namespace, &subject)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, revision := range Owned(all, "uid") {
		found = append(found, teamOf(t, revision))
	}
	return strings.Join(found, " ")
}

func TestStore_Keep(t *testing.T) {
	s, requests := newStore(t)
	for _, step := range []struct{ team, want, writes string }{
		{"blue", "blue", "create ControllerRevision"},
		{"blue", "blue", ""},
		{"red", "blue red", "create ControllerRevision"},
		{"blue", "red blue", "patch ControllerRevision"},
		{"green", "red blue green", "create ControllerRevision"},
		{"white", "blue green white", "create ControllerRevision,delete ControllerRevision"},
		{"white", "blue green white", ""},
	} {
		requests.Writes = nil
		notKept, err := s.Keep(t.Context(), OfGroup(newGroup("batch", "uid")), dataOf(t, step.team), "because", 2)
		if got, writes := s.teams(t), strings.Join(requests.Writes, ","); err != nil || notKept != "" || got != step.want || writes != step.writes {
			t.Fatalf("%s: %q with the writes %s, not kept: %q, %v; want %q with %s", step.team, got, writes, notKept, err, step.want, step.writes)
		}
	}
}

func TestStore_Keep_AfterAnError(t *testing.T) {
	for _, write := range []string{"create ControllerRevision", "delete ControllerRevision", "list ControllerRevisionList"} {
		s, requests := newStore(t)
		keep := func(team string) error {
			_, err := s.Keep(t.Context(), OfGroup(newGroup("batch", "uid")), dataOf(t, team), "", 0)
			return err
		}
		if err := keep("blue"); err != nil {
			t.Fatal(err)
		}
		requests.Fail[write] = errors.New("no")
		if err := keep("red"); err == nil {
			t.Errorf("%s: there is no error", write)
		}
		delete(requests.Fail, write)
		if err := keep("red"); err != nil || s.teams(t) != "red" {
			t.Errorf("%s: after it there is %q, %v", write, s.teams(t), err)
		}
	}
}

func TestStore_Keep_ForeignRevisions(t *testing.T) {
	forged := kept(t, "blue", "red", "green")
	forged[0].OwnerReferences = nil
	forged[1].OwnerReferences[0].UID = "other"
	forged[2].Labels = nil
	s, _ := newStore(t, forged[0], forged[1], forged[2])
	notKept, err := s.Keep(t.Context(), OfGroup(newGroup("batch", "uid")), dataOf(t, "blue"), "", 0)
	if err != nil || !strings.Contains(notKept, "another owner") {
		t.Errorf("a foreign revision of the same name: not kept %q, %v", notKept, err)
	}
	if notKept, err = s.Keep(t.Context(), OfGroup(newGroup("batch", "uid")), dataOf(t, "white"), "", 0); err != nil || notKept != "" {
		t.Errorf("beside foreign revisions: not kept %q, %v", notKept, err)
	}
	for _, revision := range forged {
		if err := s.Reader.Get(t.Context(), client.ObjectKeyFromObject(revision), &appsv1.ControllerRevision{}); err != nil {
			t.Error(err)
		}
	}
}

func TestStore_Keep_TooLarge(t *testing.T) {
	s, requests := newStore(t)
	notKept, err := s.Keep(t.Context(), OfGroup(newGroup("batch", "uid")), dataOf(t, strings.Repeat("x", MaxData)), "", 5)
	if err != nil || !strings.Contains(notKept, "65536") || len(requests.Writes) > 0 {
		t.Errorf("not kept: %q, %v, writes %v", notKept, err, requests.Writes)
	}
}

// TestStore_Keep_MachineSets: templates of MachineSets have histories of their own, which their group owns.
func TestStore_Keep_MachineSets(t *testing.T) {
	s, _ := newStore(t)
	group := newGroup("batch", "uid")
	set := &machinev1beta1.MachineSet{}
	set.Namespace, set.Name = "machines", "web"
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"image":"one"}`)}
	subject := OfMachineSet(group, set.Namespace, set.Name)
	for _, image := range []string{"one", "two"} {
		set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"image":"` + image + `"}`)}
		data, err := MachineSetData(set)
		if err != nil {
			t.Fatal(err)
		}
		if notKept, err := s.Keep(t.Context(), subject, data, "", 5); err != nil || notKept != "" {
			t.Fatalf("not kept: %q, %v", notKept, err)
		}
	}
	if s.teams(t) != "" {
		t.Error("the history of the group has templates")
	}
	all, err := List(t.Context(), s.Reader, s.Namespace, &subject)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d revisions, %v", len(all), err)
	}
	data, err := MachineSetData(set)
	if err != nil {
		t.Fatal(err)
	}
	if err := RestoreMachineSet(set, Previous(Owned(all, "uid"), data)); err != nil {
		t.Fatal(err)
	}
	if got := string(set.Spec.Template.Spec.ProviderSpec.Value.Raw); got != `{"image":"one"}` {
		t.Errorf("the template is %s", got)
	}
	if !slices.Contains([]string{"MachineSet machines/web"}, all[0].Annotations[AnnotationSubject]) {
		t.Errorf("the revision says that it is of %s", all[0].Annotations[AnnotationSubject])
	}
}

// TestStore_Prune: if a group owns the revisions of a deleted MachineSet, they are deleted. No other revisions are.
func TestStore_Prune(t *testing.T) {
	group := newGroup("batch", "uid")
	revision := func(subject Subject) *appsv1.ControllerRevision {
		return subject.revision(namespace, []byte("{}"), 1, "")
	}
	foreign := revision(OfMachineSet(newGroup("batch", "other"), "machines", "gone"))
	forged := revision(OfMachineSet(group, "machines", "forged"))
	forged.OwnerReferences = nil
	gone := revision(OfMachineSet(group, "machines", "gone"))
	kept := []*appsv1.ControllerRevision{
		revision(OfGroup(group)), revision(OfMachineSet(group, "machines", "web")), revision(OfMachineSet(group, "machines-2", "gone")), foreign, forged,
	}
	s, requests := newStore(t, gone)
	for _, revision := range kept {
		if err := s.Writer.Create(t.Context(), revision); err != nil {
			t.Fatal(err)
		}
	}
	requests.Writes = nil
	for _, want := range []string{"delete ControllerRevision", ""} {
		if err := s.Prune(t.Context(), group, "machines", []string{"web", "new"}); err != nil || strings.Join(requests.Writes, ",") != want {
			t.Errorf("the writes are %v, want %q, %v", requests.Writes, want, err)
		}
		requests.Writes = nil
	}
	if err := s.Reader.Get(t.Context(), client.ObjectKeyFromObject(gone), &appsv1.ControllerRevision{}); !apierrors.IsNotFound(err) {
		t.Errorf("the revision of a MachineSet that is gone: %v", err)
	}
	for _, revision := range kept {
		if err := s.Reader.Get(t.Context(), client.ObjectKeyFromObject(revision), &appsv1.ControllerRevision{}); err != nil {
			t.Error(err)
		}
	}
}
