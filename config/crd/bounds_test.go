package crd

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// A number that does not fit keeps every client from listing the kind. The API servers of Kubernetes 1.34 and earlier do not check the format of an
// integer, so the schema of what users write has to have bounds.
func TestSchemas_IntegersOfUsersHaveBounds(t *testing.T) {
	files, err := filepath.Glob("*/*.*_*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		if filepath.Dir(file) == "migration" {
			continue // others define these
		}
		text, err := os.ReadFile(filepath.Clean(file))
		if err != nil {
			t.Fatal(err)
		}
		definition := map[string]any{}
		if err := yaml.Unmarshal(text, &definition); err != nil {
			t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(definition, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		for _, version := range versions {
			spec, _, err := unstructured.NestedMap(version.(map[string]any), "schema", "openAPIV3Schema", "properties", "spec") //nolint:errcheck // a CRD
			if err != nil {
				t.Fatal(err)
			}
			eachInteger("spec", spec, func(path string, schema map[string]any) {
				found++
				least, bounded := schema["minimum"].(float64)
				most, boundedAbove := schema["maximum"].(float64)
				if !bounded || !boundedAbove || least < math.MinInt32 || most > math.MaxInt32 {
					t.Errorf("%s: %s has no bounds within 32 bits", file, path)
				}
			})
		}
	}
	if found == 0 {
		t.Error("no integers found")
	}
}

// eachInteger calls back for each integer of 32 bits below a schema.
func eachInteger(path string, schema map[string]any, visit func(path string, schema map[string]any)) {
	if schema["format"] == "int32" {
		visit(path, schema)
	}
	for name, below := range schema {
		if below, ok := below.(map[string]any); ok {
			eachInteger(path+"."+name, below, visit)
		}
	}
}
