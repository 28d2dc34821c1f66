package harness

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/cluster"
)

// apiSuite is one file of the API tests that the module github.com/openshift/api brings along.
type apiSuite struct {
	Name         string   `json:"name"`
	FeatureGates []string `json:"featureGates"`
	Tests        struct {
		OnCreate []apiCase `json:"onCreate"`
		OnUpdate []apiCase `json:"onUpdate"`
	} `json:"tests"`
}

// apiCase is what is written, and what comes of it.
type apiCase struct {
	Name                string `json:"name"`
	Initial             string `json:"initial"`
	Updated             string `json:"updated"`
	Expected            string `json:"expected"`
	ExpectedError       string `json:"expectedError"`
	ExpectedStatusError string `json:"expectedStatusError"`
}

// migrationGate is the feature gate that distinguishes the two sets of CRDs.
const migrationGate = "MachineAPIMigration"

// RunAPISuites runs the API tests of machine.openshift.io that fit the CRDs of a control plane: those with the feature gate
// MachineAPIMigration, or those without. It fails when there are fewer cases than it should find.
func RunAPISuites(t *testing.T, c *cluster.Cluster, migration bool, atLeast int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(OpenShiftAPI(t), "machine/v1beta1/tests/*/*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	writer, err := client.New(c.Admin(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, file := range files {
		suite := readSuite(t, file)
		if slices.Contains(suite.FeatureGates, migrationGate) != migration {
			continue
		}
		for _, one := range slices.Concat(suite.Tests.OnCreate, suite.Tests.OnUpdate) {
			cases++
			t.Run(suite.Name+"/"+one.Name, func(t *testing.T) { one.run(t, writer) })
		}
	}
	if cases < atLeast {
		t.Errorf("%d cases found, at least %d are known", cases, atLeast)
	}
}

// OpenShiftAPI is the folder of the module github.com/openshift/api, with the files that are not Go.
func OpenShiftAPI(t testing.TB) string {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/openshift/api").Output()
	if err != nil {
		t.Fatalf("finding the module github.com/openshift/api: %v", err)
	}
	return strings.TrimSpace(string(output))
}

func readSuite(t *testing.T, file string) apiSuite {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var suite apiSuite
	if err := yaml.Unmarshal(text, &suite); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return suite
}

func (one apiCase) run(t *testing.T, writer client.Client) {
	object := parse(t, one.Initial)
	object.SetNamespace(cluster.MachineNamespace)
	object.SetGenerateName("suite-")
	err := create(t.Context(), writer, object)
	if object.GetName() != "" {
		t.Cleanup(func() {
			if err := writer.Delete(context.WithoutCancel(t.Context()), object); err != nil {
				t.Errorf("removing it: %v", err)
			}
		})
	}
	var statusError error
	if err == nil && one.Updated != "" {
		err, statusError = update(t.Context(), writer, object, parse(t, one.Updated))
	}
	if !denies(t, "the object", err, one.ExpectedError) || !denies(t, "its status", statusError, one.ExpectedStatusError) || one.Expected == "" {
		return
	}
	if err := writer.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	got := object.DeepCopy()
	delete(got.Object, "metadata")
	if diff := cmp.Diff(parse(t, one.Expected).Object, got.Object); diff != "" {
		t.Errorf("(- wanted, + found)\n%s", diff)
	}
}

// create writes an object, and its status when it has one.
func create(ctx context.Context, writer client.Client, object *unstructured.Unstructured) error {
	status, there := object.Object["status"]
	if err := writer.Create(ctx, object); err != nil || !there {
		return err
	}
	object.Object["status"] = status
	return writer.Status().Update(ctx, object)
}

// update writes what is not status first, and then the status.
func update(ctx context.Context, writer client.Client, object, updated *unstructured.Unstructured) (err, statusError error) {
	updated.SetNamespace(object.GetNamespace())
	updated.SetName(object.GetName())
	updated.SetResourceVersion(object.GetResourceVersion())
	status, there := updated.Object["status"]
	if err := writer.Update(ctx, updated); err != nil || !there {
		return err, nil
	}
	updated.Object["status"] = status
	return nil, writer.Status().Update(ctx, updated)
}

// theValue is what a server puts before the text of a CEL rule: its kind on older ones, itself or nothing on newer ones.
var theValue = regexp.MustCompile(`Invalid value: "\w+": `)

func withoutValue(text string) string { return theValue.ReplaceAllString(text, "Invalid value: ") }

// denies compares what the API server says with what it is to say, and reports whether it was to say nothing.
func denies(t *testing.T, what string, err error, expected string) bool {
	t.Helper()
	switch {
	case err == nil && expected != "":
		t.Errorf("%s is accepted, and should be denied: %s", what, expected)
	case err != nil && (expected == "" || !strings.Contains(withoutValue(err.Error()), withoutValue(expected))):
		t.Errorf("%s is denied: %v, expected is %q", what, err, expected)
	}
	return err == nil && expected == ""
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	written, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = object.UnmarshalJSON(written)
	}
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return object
}
