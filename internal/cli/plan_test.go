package cli

import (
	"encoding/json"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// applyDecision patches the objects of an item in place with the operator's own patches.
func applyDecision(t *testing.T, item plan.Item) {
	t.Helper()
	if item.Decision.Machine.Write {
		patch, err := plan.MachinePatch(item.Machine, item.Decision.Machine)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, item.Machine, func(before []byte) ([]byte, error) { return jsonpatch.MergePatch(before, patch) })
	}
	if item.Decision.Node.Write {
		patch, err := plan.NodeChange{Set: &item.Decision.Node}.Patch(item.Node)
		if err != nil {
			t.Fatal(err)
		}
		operations, err := jsonpatch.DecodePatch(patch)
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, item.Node, operations.Apply)
	}
}

// rewrite puts an object through a patch of its JSON.
func rewrite[T any](t *testing.T, object *T, patch func([]byte) ([]byte, error)) {
	t.Helper()
	before, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch(before)
	if err != nil {
		t.Fatalf("%v: patching %s", err, before)
	}
	*object = *new(T)
	if err := json.Unmarshal(after, object); err != nil {
		t.Fatal(err)
	}
}

func declare(labels, annotations map[string]string, taints ...corev1.Taint) func(*machinev1beta1.MachineSet) {
	return func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = labels
		set.Spec.Template.Spec.Annotations = annotations
		set.Spec.Template.Spec.Taints = taints
	}
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// mixed is a cluster in which everything occurs that a plan can show.
func mixed(t *testing.T) *fakeCluster {
	t.Helper()
	f := &fakeCluster{}
	database := f.machineSet("database", 7, declare(
		map[string]string{"tier": "silver", "old": "label"},
		map[string]string{"example.com/owner": "team a"},
		taint("dedicated", "db", corev1.TaintEffectNoSchedule), taint("old", "", corev1.TaintEffectPreferNoSchedule),
	))
	f.machineSet("web", 2, declare(map[string]string{"web": "yes"}, nil))
	f.settle(t)
	f.machineSet("adopted", 1, declare(map[string]string{"zone": "a"}, nil))
	f.node("adopted-0").Labels["zone"] = "a"
	f.machineSet("empty", 0, declare(nil, nil))

	declare(
		map[string]string{"tier": "gold", "kubernetes.io/os": "plan9", "bad key": "x"},
		map[string]string{"example.com/owner": "team a", "example.com/text": "two\nlines", "example.com/taken": "ours"},
		taint("dedicated", "database", corev1.TaintEffectNoSchedule), taint("dedicated", "x", corev1.TaintEffectNoSchedule),
		taint("new", "", corev1.TaintEffectNoExecute),
	)(database)
	f.node("database-2").Annotations["example.com/taken"] = "theirs"
	f.node("database-3").Annotations[plan.AnnotationPaused] = "true"
	f.machineOf("database-4").Status.NodeRef = nil
	f.node("web-1").Labels["web"] = "no"
	return f
}

func TestPlan(t *testing.T) {
	f := mixed(t)
	for name, args := range map[string][]string{
		"plan.txt":      {"plan"},
		"plan-wide.txt": {"plan", "-o", "wide", "database"},
		"plan-web.yaml": {"plan", "-o", "yaml", "web"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.run(t, args...)
			if got.code != exitChanges || got.errors != "" {
				t.Errorf("code %d, stderr %q", got.code, got.errors)
			}
			golden(t, name, got.out)
		})
	}
}

func TestStatus(t *testing.T) {
	f := mixed(t)
	for name, args := range map[string][]string{
		"status.txt":      {"status"},
		"status-wide.txt": {"status", "-o", "wide", "-A"},
		"status-web.json": {"status", "-o", "json", "pool/web"},
	} {
		t.Run(name, func(t *testing.T) {
			got := f.run(t, args...)
			if got.code != exitOK || got.errors != "" {
				t.Errorf("code %d, stderr %q", got.code, got.errors)
			}
			golden(t, name, got.out)
		})
	}
}

// TestStatusWait_NotAsDeclared: waiting ends when nothing is pending, but is a failure if that is not what is declared.
func TestStatusWait_NotAsDeclared(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("web", 2, declare(map[string]string{"web": "yes"}, nil))
	f.settle(t)
	f.run(t, "status", "--wait").says(t, exitOK, "web ")
	f.machineSet("taken", 1, declare(map[string]string{"tier": "gold"}, nil))
	f.node("taken-0").Labels["tier"] = "silver"
	f.settle(t)
	f.run(t, "status", "--wait").says(t, exitError, `machineset "taken" is rolled out, but 1 of 1 machines are in conflict`)
	f.run(t, "status", "--wait", "web").says(t, exitOK)
}
