package undecodable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
)

const (
	head     = `{"apiVersion":"machine.openshift.io/v1beta1","kind":"MachineSet","metadata":{"name":"m","namespace":"n","uid":"u"},`
	badDates = `"spec":{"replicas":3,"template":{"spec":{"metadata":{"labels":{"a":"b"}},"taints":[` +
		`{"key":"a","effect":"NoSchedule","timeAdded":"2020-01-01t00:00:00z"},{"key":"b","effect":"NoExecute","timeAdded":"2020-01-01T00:00:00+99:99"},` +
		`{"key":"c","effect":"NoExecute","timeAdded":"2020-01-01T00:00:00Z"}]}}}}`
)

// TestDecode_DropsTheField: what Go can decode stays, and the error names the rest.
func TestDecode_DropsTheField(t *testing.T) {
	set := &machinev1beta1.MachineSet{}
	if err := Decode([]byte(head+badDates), set); err != nil {
		t.Fatal(err)
	}
	taints := set.Spec.Template.Spec.Taints
	if *set.Spec.Replicas != 3 || set.Spec.Template.Spec.Labels["a"] != "b" || len(taints) != 3 ||
		taints[0].TimeAdded != nil || taints[2].TimeAdded == nil {
		t.Errorf("decoded %+v", set.Spec)
	}
	err := Check(set)
	var undecodable *Error
	if !errors.As(fmt.Errorf("reading: %w", err), &undecodable) || !Is(err) {
		t.Fatalf("error %v", err)
	}
	for _, part := range []string{
		"MachineSet n/m cannot be decoded: ", "spec.template.spec.taints[0].timeAdded: ", "spec.template.spec.taints[1].timeAdded: ",
		"2020-01-01t00:00:00z",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error lacks %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), "taints[2]") {
		t.Error(err)
	}
}

// TestDecode_AnyField: if any field holds something else than Go expects, the object is decoded without that field.
func TestDecode_AnyField(t *testing.T) {
	check, group := &machinev1beta1.MachineHealthCheck{}, &drover.NodeGroup{}
	if err := Decode([]byte(`{"metadata":{"name":"c"},"spec":{"maxUnhealthy":3000000000,"nodeStartupTimeout":"10m",`+
		`"selector":{"matchLabels":{"a":"b"}}},`+
		`"status":{"expectedMachines":99999999999999999999,"conditions":[{"type":"A","lastTransitionTime":"x"},7]}}`), check); err != nil {
		t.Fatal(err)
	}
	if check.Spec.MaxUnhealthy != nil || check.Spec.NodeStartupTimeout == nil || check.Spec.Selector.MatchLabels["a"] != "b" {
		t.Errorf("decoded %+v", check.Spec)
	}
	if len(check.Status.Conditions) != 1 || check.Status.Conditions[0].Type != "A" || check.Status.ExpectedMachines != nil {
		t.Errorf("decoded %+v", check.Status)
	}
	if problem := ProblemOf(check); !strings.Contains(problem, "spec.maxUnhealthy") || !strings.Contains(problem, "and 1 more") {
		t.Error(problem)
	}
	if err := Decode([]byte(`{"metadata":{"name":"g"},"spec":"none","status":[1]}`), group); err != nil || ProblemOf(group) == "" || group.Name != "g" {
		t.Errorf("%v, %q", err, ProblemOf(group))
	}
}

// TestDecode_Decodable: an object that can be decoded has no mark, also if a user has set one, and no TypeMeta.
func TestDecode_Decodable(t *testing.T) {
	want := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{
		Name: "m", Annotations: map[string]string{Annotation: "forged", "a": "b"},
	}}
	want.Spec.Replicas = new(int32(2))
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	got := &machinev1beta1.MachineSet{}
	text = []byte(strings.Replace(string(text), "{", `{"kind":"MachineSet","apiVersion":"machine.openshift.io/v1beta1",`, 1))
	if err := Decode(text, got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" || Check(got) != nil || ProblemOf(got) != "" {
		t.Errorf("%s, %v", diff, Check(got))
	}
}

// TestDecode_Bounded: the text that says why quotes little of what a user wrote.
func TestDecode_Bounded(t *testing.T) {
	set := &machinev1beta1.MachineSet{}
	var taints []string
	for range 2000 {
		taints = append(taints, fmt.Sprintf(`{"key":"a","effect":"NoSchedule","timeAdded":%q}`, strings.Repeat("é", 500)))
	}
	if err := Decode([]byte(head+`"spec":{"template":{"spec":{"taints":[`+strings.Join(taints, ",")+`]}}}}`), set); err != nil {
		t.Fatal(err)
	}
	if size := len(set.Annotations[Annotation]); size > MaxValue {
		t.Errorf("%d bytes", size)
	}
	if !strings.HasSuffix(ProblemOf(set), "; and 1997 more") {
		t.Error(ProblemOf(set))
	}
}

// TestDecode_NoObject: what is no object is an error, and nothing is decoded of it.
func TestDecode_NoObject(t *testing.T) {
	for _, text := range []string{``, `{`, `[]`, `"x"`, `7`, `{"metadata":{"name":"a"}`} {
		if err := Decode([]byte(text), &machinev1beta1.MachineSet{}); err == nil {
			t.Errorf("no error for %q", text)
		}
	}
}
