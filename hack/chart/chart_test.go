package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
)

// TestEnumsAreTheOperators: the schema of the values takes the words that the operator takes, and no others.
func TestEnumsAreTheOperators(t *testing.T) {
	for path, words := range enums {
		faults := func(word any) int {
			value, err := json.Marshal(word)
			if err != nil {
				t.Fatal(err)
			}
			fields := strings.Split(path, ".")
			text := fmt.Sprintf("apiVersion: config.drover.dev/v1alpha1\nkind: DroverConfiguration\n%s: %s%s\n",
				strings.Join(fields, ": {"), value, strings.Repeat("}", len(fields)-1))
			parsed, err := config.Parse([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			// Another field may have to be set as well.
			return len(config.Validate(parsed, operator.CapabilityNames()).Filter(func(err error) bool {
				fault := &field.Error{}
				return errors.As(err, &fault) && fault.Field != path
			}))
		}
		for _, word := range words {
			if faults(word) > 0 {
				t.Errorf("the operator does not take %s: %v", path, word)
			}
		}
		if faults("another") == 0 {
			t.Errorf("%s is no list of words: the operator takes any", path)
		}
	}
}

func TestATemplateNamesNoNamespaceOfItsOwn(t *testing.T) {
	role := `kind: Role
metadata:
  name: drover-x
  namespace: openshift-machine-api
---
kind: RoleBinding
metadata:
  name: drover-x
  namespace: openshift-machine-api
roleRef:
  kind: Role
  name: drover-x
subjects:
- kind: ServiceAccount
  name: drover
  namespace: drover-system
`
	got, err := source{file: "x.yaml", when: on("metadata")}.template(role)
	if err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"namespace: drover-system", "namespace: openshift-machine-api", "\nkind: Role"} {
		if strings.Contains(got, gone) {
			t.Errorf("it still has %q:\n%s", gone, got)
		}
	}
	if count := strings.Count(got, "-everywhere{{ end }}"); count != 3 {
		t.Errorf("%d names are other ones for all namespaces, want those of both and of the reference:\n%s", count, got)
	}
	if !strings.HasPrefix(got, "{{- /* Code generated") || !strings.HasSuffix(got, "{{- end }}\n") {
		t.Errorf("it is not below its condition:\n%s", got)
	}
}

func TestWhatCannotBeATemplateIsRefused(t *testing.T) {
	if _, err := (source{file: "x.yaml"}).template("message: '{{ .x }}'\n"); err == nil {
		t.Error("text that Helm takes for its own was taken")
	}
	if _, err := (source{file: "x.yaml", edit: []string{"name: gone", "name: x"}}).template("name: here\n"); err == nil {
		t.Error("a text to replace is not there, and it is not reported")
	}
	if _, err := keep([]byte("kind: CustomResourceDefinition\nmetadata:\n  name: x\n")); err == nil {
		t.Error("a CRD without annotations was taken as it is")
	}
}
