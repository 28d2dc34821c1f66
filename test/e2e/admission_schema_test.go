package e2e

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/harness"
)

// groupsOf are the API versions of both groups.
var groupsOf = map[string]string{"medik8s": "nodemaintenance.medik8s.io/v1beta1", "kubevirt": "nodemaintenance.kubevirt.io/v1beta1"}

// manifest parses what a user may write, valid or not.
func manifest(t *testing.T, group, name, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(text), &object.Object); err != nil {
		t.Fatal(err)
	}
	object.SetAPIVersion(groupsOf[group])
	object.SetKind("NodeMaintenance")
	object.SetName(name)
	return object
}

// What stands alone is checked by the API server itself, with the operator down.
func TestSchema_BothGroups(t *testing.T) {
	w := newWebhookWorld(t)
	for name, c := range map[string]struct{ text, want string }{
		"a node is enough":      {"spec: {nodeName: a}", ""},
		"with a reason":         {"spec: {nodeName: a, reason: disk}", ""},
		"any reason":            {"spec: {nodeName: a, reason: ''}", ""},
		"a name as it may come": {"spec: {nodeName: doesNotExist}", ""},
		"no spec":               {"{}", "spec: Required value"},
		"an empty spec":         {"spec: {}", "spec.nodeName: Required value"},
		"an empty name":         {"spec: {nodeName: ''}", "spec.nodeName: Invalid value: \"\""},
		"a name too long":       {"spec: {nodeName: " + strings.Repeat("a", 254) + "}", "spec.nodeName: Too long"},
		"a number":              {"spec: {nodeName: 1}", "spec.nodeName: Invalid value: \"integer\""},
		"a list of reasons":     {"spec: {nodeName: a, reason: [b]}", "spec.reason: Invalid value: \"array\""},
	} {
		for group := range groupsOf {
			check(w, group+", "+name, manifest(t, group, "schema", c.text), c.want)
		}
	}
}

func check(w *webhookWorld, name string, object client.Object, want string) {
	w.Helper()
	err := w.tries(object)
	switch {
	case want == "" && err != nil:
		w.Errorf("%s: refused with %v", name, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		w.Errorf("%s: %v, want %q", name, err, want)
	}
}

func TestSchema_Drains(t *testing.T) {
	const duration = "must be a duration above 0, such as 90s, 15m or 1h30m"
	w := newWebhookWorld(t)
	cases := map[string]string{
		"{}":                                           "",
		"{deadline: 90s}":                              "",
		"{deadline: 1h30m}":                            "",
		"{deadline: 1h30m0.5s, force: true}":           "",
		"{deadline: 999999h}":                          "",
		"{deadline: 1.5h}":                             "",
		"{deadline: 100ms}":                            "",
		"{deadline: 1µs}":                              "",
		"{deadline: ''}":                               duration,
		"{deadline: 0s}":                               duration,
		"{deadline: 0h0m0s}":                           duration,
		"{deadline: '0'}":                              duration,
		"{deadline: -5m}":                              duration,
		"{deadline: 5 minutes}":                        duration,
		"{deadline: '5'}":                              duration,
		"{deadline: 1d}":                               duration,
		"{deadline: 5m x}":                             duration,
		"{deadline: 5}":                                "spec.drain.deadline: Invalid value: \"integer\"",
		"{deadline: " + zeros(40) + "1s}":              "spec.drain.deadline: Too long",
		"{minimumTime: 5s}":                            "",
		"{minimumTime: 0s}":                            "spec.drain.minimumTime: Invalid value",
		"{waitForVolumes: true}":                       "",
		"{waitForVolumes: true, volumesTimeout: 5m}":   "",
		"{waitForVolumes: true, volumesTimeout: soon}": "spec.drain.volumesTimeout: Invalid value",
		"{volumesTimeout: 5m}":                         "volumesTimeout needs waitForVolumes",
		"{waitForVolumes: false, volumesTimeout: 5m}":  "volumesTimeout needs waitForVolumes",
		"{force: true}":                                "force needs a deadline",
		"{force: false}":                               "",
		"{order: Priority}":                            "",
		"{order: None}":                                "",
		"{order: Random}":                              "spec.drain.order: Unsupported value",
		"{unreachable: OutOfService}":                  "",
		"{unreachable: Delete}":                        "spec.drain.unreachable: Unsupported value",
		"{honor: [ClusterAPI, Karpenter]}":             "",
		"{honor: [ClusterAPI, ClusterAPI]}":            "spec.drain.honor[1]: Duplicate value",
		"{honor: [Gardener]}":                          "spec.drain.honor[0]: Unsupported value",
		"{dryRun: true}":                               "",
		"{dryRun: maybe}":                              "spec.drain.dryRun: Invalid value",
		"{podRules: [{}]}":                             "",
		"{podRules: [{behavior: Skip}]}":               "",
		"{podRules: [{behavior: Drain, order: -3}]}":   "",
		"{podRules: [{order: 1}]}":                     "",
		"{podRules: [{behavior: Skip, order: 1}]}":     "order is for the behavior Drain only",
		"{podRules: [{behavior: Delete}]}":             "spec.drain.podRules[0].behavior: Unsupported value",
		"{podRules: [{order: 3000000000}]}":            "spec.drain.podRules[0].order",
		"{podRules: [{namespaces: [a, a]}]}":           "spec.drain.podRules[0].namespaces[1]: Duplicate value",
		"{podRules: [{podSelector: {matchLabels: {app: a}}, namespaces: [a, b]}]}":               "",
		"{podRules: [{podSelector: {matchExpressions: [{key: a, operator: Exists}]}}]}":          "",
		"{podRules: [{podSelector: {matchExpressions: [{key: a}]}}]}":                            "operator: Required value",
		"{podRules: [" + strings.TrimSuffix(strings.Repeat("{behavior: Skip},", 64), ",") + "]}": "",
		"{podRules: [" + strings.TrimSuffix(strings.Repeat("{behavior: Skip},", 65), ",") + "]}": "spec.drain.podRules: Too many",
	}
	for drain, want := range cases {
		check(w, drain, manifest(t, "medik8s", "schema", "spec: {nodeName: a, drain: "+drain+"}"), want)
	}
}

func zeros(n int) string { return strings.Repeat("0", n) }

func TestSchema_NodeNameImmutable(t *testing.T) {
	w := newWebhookWorld(t)
	for group := range groupsOf {
		object := manifest(t, group, "fixed", "spec: {nodeName: a, reason: b}")
		if err := w.create(object); err != nil {
			t.Fatal(err)
		}
		for change, want := range map[string]string{
			`{"spec":{"nodeName":"b"}}`:  "updating spec.NodeName isn't allowed",
			`{"spec":{"nodeName":null}}`: "spec.nodeName: Required value",
			`{"spec":null}`:              "spec: Required value",
		} {
			w.refused(w.Client.Patch(t.Context(), object, mergePatch(change)), want)
		}
		patch(w.World, object, `{"spec":{"reason":"c"}}`)
	}
}

// The object as node-maintenance-operator writes it: its creation, with the status of a typed client, and then each of its fields.
func TestSchema_AcceptsObjectsOfReplacedOperators(t *testing.T) {
	w := newWebhookWorld(t)
	for group, text := range map[string]string{
		"medik8s": `
spec: {nodeName: a}
status: {lastUpdate: null}`,
		"kubevirt": `
spec: {nodeName: a, reason: ""}
status: {}`,
	} {
		object := manifest(t, group, "replaced", text)
		object.SetFinalizers([]string{"foregroundDeleteNodeMaintenance"})
		if err := w.create(object); err != nil {
			t.Fatal(err)
		}
		status := map[string]any{
			"phase": "Running", "lastError": "x", "pendingPods": []any{"p", "p"}, "totalpods": int64(3), "evictionPods": int64(2),
			"errorOnLeaseCount": int64(1),
		}
		if group == "medik8s" {
			status["drainProgress"], status["lastUpdate"] = int64(-50), "2026-01-01T00:00:00Z"
			status["pendingPodsRefs"] = []any{map[string]any{"namespace": "n", "name": "p"}}
		}
		object.Object["status"] = status
		if err := w.Client.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		kept, _, err := unstructured.NestedMap(object.Object, "status")
		if err != nil || len(kept) != len(status) {
			t.Errorf("%s: of the status %v is left, %v", group, kept, err)
		}
		// It clears what it has no use for any more.
		for _, phase := range []string{"Succeeded", "Failed", "Paused"} {
			object.Object["status"] = map[string]any{"phase": phase}
			if err := w.Client.Status().Update(t.Context(), object); err != nil {
				t.Errorf("%s: phase %s: %v", group, phase, err)
			}
		}
	}
}

func TestSchema_PrinterColumns(t *testing.T) {
	w := newWebhookWorld(t)
	object := manifest(t, "medik8s", "shown", "spec: {nodeName: worker-7, reason: new disk}")
	if err := w.create(object); err != nil {
		t.Fatal(err)
	}
	status := mergePatch(`{"status":{"phase":"Running","drainProgress":40,"conditions":[{"type":"Ready","status":"False","reason":"Draining",
		"message":"3 pods are leaving","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)
	if err := w.Client.Status().Patch(t.Context(), object, status); err != nil {
		t.Fatal(err)
	}
	if err := w.create(manifest(t, "kubevirt", "old", "spec: {nodeName: worker-8}")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"nm"}, []string{"NAME NODE PHASE PROGRESS AGE REASON", "shown worker-7 Running 40 * new disk"}},
		{[]string{"nm", "-o", "wide"}, []string{"NAME NODE PHASE PROGRESS AGE REASON STATUS MESSAGE",
			"shown worker-7 Running 40 * new disk Draining 3 pods are leaving"}},
		{[]string{"nodemaintenances.nodemaintenance.kubevirt.io"}, []string{"NAME NODE PHASE PROGRESS AGE REASON", "old worker-8 *"}},
	} {
		output, err := harness.Kubectl(t.Context(), env, nil, append([]string{"get"}, c.args...)...)
		if err != nil {
			t.Fatal(err, output)
		}
		lines := strings.Split(strings.TrimSpace(output), "\n")
		if len(lines) != len(c.want) {
			t.Errorf("kubectl get %v:\n%s", c.args, output)
			continue
		}
		for i, line := range lines {
			if !like(strings.Join(strings.Fields(line), " "), c.want[i]) {
				t.Errorf("kubectl get %v: %q, want %q", c.args, line, c.want[i])
			}
		}
	}
	// The short name is one group's only, so it is never ambiguous.
	resources, err := harness.Kubectl(t.Context(), env, nil, "api-resources", "--no-headers")
	if err != nil {
		t.Fatal(err, resources)
	}
	found := 0
	for line := range strings.SplitSeq(resources, "\n") {
		if fields := strings.Fields(line); len(fields) > 2 && fields[1] == "nm" {
			found++
			if fields[2] != groupsOf["medik8s"] {
				t.Errorf("nm is %s", line)
			}
		}
	}
	if found != 1 {
		t.Error(fmt.Sprintf("nm is the name of %d resources:\n", found), resources)
	}
}

// like compares a line with a pattern, where * is one word.
func like(line, pattern string) bool {
	words, wanted := strings.Fields(line), strings.Fields(pattern)
	if len(words) != len(wanted) {
		return false
	}
	for i, want := range wanted {
		if want != "*" && words[i] != want {
			return false
		}
	}
	return true
}
