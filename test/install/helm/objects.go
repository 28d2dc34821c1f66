package helm

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Objects are objects by kind, namespace and name.
type Objects map[string]*unstructured.Unstructured

// Parse reads the objects of a text. Two of one name fail the test.
func Parse(t testing.TB, text string) Objects {
	t.Helper()
	objects := Objects{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatalf("%v\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := KeyOf(object)
		if objects[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		objects[key] = object
	}
}

// KeyOf is kind, namespace and name of an object.
func KeyOf(object *unstructured.Unstructured) string {
	key := object.GetKind() + " "
	if namespace := object.GetNamespace(); namespace != "" {
		key += namespace + "/"
	}
	return key + object.GetName()
}

// Kustomize builds a folder of config/.
func Kustomize(t testing.TB, c *cluster.Cluster, folder string) Objects {
	t.Helper()
	path, err := harness.Folder(folder)
	if err != nil {
		t.Fatal(err)
	}
	output, err := harness.Kubectl(t.Context(), c, nil, "kustomize", path)
	if err != nil {
		t.Fatal(err, output)
	}
	return Parse(t, output)
}

// Keys lists the objects of some kinds, of all without one.
func (o Objects) Keys(kinds ...string) []string {
	keys := make([]string, 0, len(o))
	for key, object := range o {
		if len(kinds) == 0 || slices.Contains(kinds, object.GetKind()) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Equal compares the objects of a chart with the objects of config/, one by one. It leaves out what only Helm needs, and the keys in ignore.
func (o Objects) Equal(t testing.TB, want Objects, ignore ...string) {
	t.Helper()
	for _, key := range ignore {
		delete(o, key)
		delete(want, key)
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(o))); diff != "" {
		t.Errorf("objects: %s", diff)
	}
	for key, object := range o {
		if want[key] == nil {
			continue
		}
		if diff := cmp.Diff(plain(want[key]), plain(object)); diff != "" {
			t.Errorf("%s: %s", key, diff)
		}
	}
}

// plain leaves out what says to Helm what it shall keep, and to Kubernetes that the configuration is another one.
func plain(object *unstructured.Unstructured) map[string]any {
	object = object.DeepCopy()
	for _, path := range [][]string{
		{"metadata", "annotations", "helm.sh/resource-policy"}, {"spec", "template", "metadata", "annotations", "drover.dev/config"},
	} {
		unstructured.RemoveNestedField(object.Object, path...)
	}
	if len(object.GetAnnotations()) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", "annotations")
	}
	return object.Object
}
