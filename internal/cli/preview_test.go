package cli

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const workersManifest = `apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata:
  name: workers
spec:
  template:
    spec:
      metadata:
        labels:
          tier: gold
`

// manifestFile writes a file and returns its path.
func manifestFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "workers.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPreview(t *testing.T) {
	for _, c := range []struct {
		name    string
		applied bool
		content string
		args    string
		code    int
		want    []string
		not     string
	}{
		{"applied with kubectl", true, workersManifest, "", exitChanges,
			[]string{"generation 4", "~ label      tier=silver → gold", "- label      old=label"}, "web"},
		{"created otherwise", false, workersManifest, "", exitChanges, []string{"tier=silver → gold"}, "old=label"},
		{"the same manifest again", true, "", "", exitOK, []string{"generation 3", "Nothing to change"}, "web"},
		{"another MachineSet named", true, workersManifest, "web", exitOK, []string{"MachineSet openshift-machine-api/web"}, "workers"},
		{"new MachineSet", true, strings.Replace(workersManifest, "name: workers", "name: fresh", 1), "", exitOK,
			[]string{"fresh (generation 1, 0 Machines)"}, "web"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeCluster{}
			set := f.machineSet("workers", 2, declare(map[string]string{"tier": "silver", "old": "label"}, nil))
			f.machineSet("web", 1, declare(nil, nil))
			f.settle(t)
			content := c.content
			if c.applied {
				set.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: manifestJSON(t, set)}
			}
			if content == "" {
				content = manifestJSON(t, set)
			}
			got := f.run(t, append([]string{"plan", "-f", manifestFile(t, content)}, strings.Fields(c.args)...)...)
			if got.code != c.code || c.applied == strings.Contains(got.errors, "not created by kubectl apply") {
				t.Errorf("code %d, stderr %q", got.code, got.errors)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("no %q in\n%s", want, got.out)
				}
			}
			if strings.Contains(got.out, c.not) {
				t.Errorf("%q in\n%s", c.not, got.out)
			}
		})
	}
}

func manifestJSON(t *testing.T, set *machinev1beta1.MachineSet) string {
	t.Helper()
	content := map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet", "metadata": map[string]any{"name": set.Name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"metadata": map[string]any{"labels": set.Spec.Template.Spec.Labels}}}},
	}
	text, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPreview_StandardInput(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 1, declare(nil, nil))
	secret := "---\napiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
	got := runOn(t, f.client(), workersManifest+secret, "plan", "-f", "-")
	if got.code != exitChanges || !strings.Contains(got.out, "+ label      tier=gold") ||
		!strings.Contains(got.errors, `Secret "s" is not a MachineSet`) {
		t.Errorf("%+v", got)
	}
}

// TestPreview_BothKinds: the MachineSets and NodeGroups of a file are planned with each other, and those that are named with two kinds, too.
func TestPreview_BothKinds(t *testing.T) {
	f, group := batch(t)
	f.machineSet("workers", 1, declare(nil, nil))
	group.Spec.Metadata.Labels["team"] = "red"
	content := workersManifest + "---\n" + manifestYAML(t, group.DeepCopy(), "NodeGroup", "drover.dev/v1alpha1")
	for _, args := range [][]string{{"plan", "-f", "-"}, {"plan", "workers", "nodegroup/batch", "-f", "-"}} {
		got := runOn(t, f.client(), content, args...)
		for _, want := range []string{
			"+ label      tier=gold", "To change: 1 Node and 1 Machine of 1.\n\nNodeGroup batch (generation 3, 7 nodes)", "team=blue → red",
			"To change: 7 Nodes of 7.",
		} {
			if got.code != exitChanges || !strings.Contains(got.out, want) {
				t.Errorf("%v: there is no %q in %+v", args, want, got)
			}
		}
	}
	if got := runOn(t, f.client(), content, "plan", "nodegroup/batch", "-f", "-"); strings.Contains(got.out, "MachineSet") {
		t.Errorf("of the NodeGroup alone: %+v", got)
	}
}

func TestPreview_Namespaces(t *testing.T) {
	elsewhere := strings.Replace(workersManifest, "name: workers", "name: workers\n  namespace: elsewhere", 1)
	both := elsewhere + "---\n" + strings.Replace(workersManifest, "name: workers", "name: other\n  namespace: third", 1)
	for _, c := range []struct {
		name, content, args string
		want                string
	}{
		{"that of the file", elsewhere, "", "MachineSet elsewhere/workers"},
		{"not the one asked for", elsewhere, "-n other", `is in namespace "elsewhere", not "other"; use -n elsewhere`},
		{"two in the files", both, "", "--all-namespaces for files of several namespaces"},
		{"all", both, "-A", "MachineSet third/other"},
		{"all and none in the file", workersManifest, "-A", "MachineSet openshift-machine-api/workers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeCluster{}
			got := f.run(t, append([]string{"plan", "-f", manifestFile(t, c.content)}, strings.Fields(c.args)...)...)
			if !strings.Contains(got.out+got.errors, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestPreview_BadManifests(t *testing.T) {
	for _, c := range []struct {
		name, content string
		want          string
		code          int
	}{
		{"not YAML", "a: b: c", "reading -f", exitError},
		{"no MachineSet", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n", "there is no MachineSet", exitError},
		{"another API", strings.Replace(workersManifest, "machine.openshift.io/v1beta1", "cluster.x-k8s.io/v1beta1", 1),
			"Drover works with machine.openshift.io/v1beta1", exitError},
		{"no name", strings.Replace(workersManifest, "name: workers", "generateName: workers", 1), "has no metadata.name", exitError},
		{"twice", workersManifest + "---\n" + workersManifest, "leave one out", exitError},
		{"a wrong type", strings.Replace(workersManifest, "tier: gold", "tier: [gold]", 1),
			"spec.template.spec.metadata.labels: a value of the type array is not allowed", exitError},
		{"an unknown field", strings.Replace(workersManifest, "labels:", "labels: {}\n        labls:", 1),
			`unknown field "spec.template.spec.metadata.labls"`, exitOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeCluster{}
			got := f.run(t, "plan", "-f", manifestFile(t, c.content))
			if got.code != c.code || !strings.Contains(got.errors, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
	if got := (&fakeCluster{}).run(t, "plan", "-f", "nosuch.yaml"); got.code != exitError || !strings.Contains(got.errors, "nosuch.yaml") {
		t.Errorf("%+v", got)
	}
}

// TestPreview_DryRun: what the API server refuses is an error in its words. A user who may not write gets a warning, and the plan.
func TestPreview_DryRun(t *testing.T) {
	resource := schema.GroupResource{Group: "machine.openshift.io", Resource: "machinesets"}
	forbidden := apierrors.NewForbidden(resource, "workers", errors.New("no"))
	noDryRun := apierrors.NewBadRequest(`admission webhook "x" does not support dry run`)
	for _, c := range []struct {
		name    string
		err     error
		allowed bool
		code    int
		want    string
	}{
		{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "MachineSet"}, "workers", nil), true, exitError,
			`the API server refuses it: MachineSet "workers" is invalid`},
		{"denied by a policy", forbidden, true, exitError, "the API server refuses it"},
		{"no right to write", forbidden, false, exitChanges, "is not validated: you may not patch machinesets.machine.openshift.io"},
		{"a webhook without dry runs", noDryRun, true, exitChanges, "is not validated: admission webhook"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeCluster{}
			f.machineSet("workers", 1, declare(nil, nil))
			dryRuns := 0
			on := interceptor.NewClient(f.client(), interceptor.Funcs{
				Patch: func(_ context.Context, _ client.WithWatch, _ client.Object, _ client.Patch, options ...client.PatchOption) error {
					applied := (&client.PatchOptions{}).ApplyOptions(options)
					if len(applied.DryRun) == 1 && applied.FieldValidation == metav1.FieldValidationStrict {
						dryRuns++
					}
					return c.err
				},
				Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
					if review, ok := object.(*authorizationv1.SelfSubjectAccessReview); ok {
						review.Status.Allowed = c.allowed
					}
					return nil
				},
			})
			runOn(t, on, workersManifest, "plan", "-f", "-").says(t, c.code, c.want)
			if dryRuns != 1 {
				t.Errorf("%d dry runs", dryRuns)
			}
		})
	}
}
