package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func wrote(name, operation, subresource string, ago time.Duration, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: name, Operation: metav1.ManagedFieldsOperationType(operation), Subresource: subresource, FieldsType: "FieldsV1",
		Time: &metav1.Time{Time: testTime.Add(-ago)}, FieldsV1: metav1.NewFieldsV1(fields),
	}
}

// everyOwner is a Node with an entry of every owner and every standing.
func everyOwner() *fakeCluster {
	f := &fakeCluster{}
	set := f.machineSet("workers", 1, declare(
		map[string]string{"tier": "gold", "drifted": "ours", "lost": "ours", "taken": "ours", "kubernetes.io/os": "plan9"},
		map[string]string{"example.com/owner": "team a"},
		taint("dedicated", "db", corev1.TaintEffectNoSchedule), taint("startup", "", corev1.TaintEffectNoExecute),
	))
	set.Annotations = map[string]string{plan.AnnotationSetOnceTaints: "startup"}
	f.machineOf("workers-0").Spec.Labels = map[string]string{"by-hand": "yes"}
	node := f.node("workers-0")
	record := ownership.Record{
		Section: ownership.Section{
			Labels: ownership.NewKeys("tier", "drifted", "lost", "dropped"), Annotations: ownership.NewKeys("example.com/owner"),
			Taints: ownership.NewKeys("dedicated:NoSchedule"),
		},
		Machine:  &ownership.Section{Labels: ownership.NewKeys("by-hand")},
		Once:     ownership.NewKeys("startup:NoExecute", "warmup:NoSchedule"),
		Released: map[ownership.Kind]map[string]ownership.Release{ownership.Label: {"released": {Value: "x", At: testTime.Add(-time.Minute).Unix()}}},
		Source:   "workers", Generation: 2,
	}
	node.Labels = map[string]string{
		"tier": "gold", "drifted": "theirs", "taken": "theirs", "dropped": "x", "by-hand": "yes", "legacy": "x",
		"kubernetes.io/os": "linux", "foreign": "", "left": "x",
	}
	node.Annotations = map[string]string{
		"example.com/owner": "team a", ownership.AnnotationRecord: record.Format(), ownership.AnnotationCustomLabels: "tier,drifted,lost,dropped,legacy",
	}
	node.Spec.Taints = []corev1.Taint{
		taint("dedicated", "db", corev1.TaintEffectNoSchedule), taint("warmup", "", corev1.TaintEffectNoSchedule),
		taint("foreign", "", corev1.TaintEffectNoExecute),
	}
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		wrote("kubelet", "Update", "", 48*time.Hour, `{"f:metadata":{"f:labels":{".":{},"f:kubernetes.io/os":{},"f:foreign":{}}}}`),
		wrote("drover-metadata", "Update", "", 2*time.Hour,
			`{"f:metadata":{"f:labels":{"f:tier":{},"f:by-hand":{},"f:left":{}},"f:annotations":{"f:example.com/owner":{}}},"f:spec":{"f:taints":{}}}`),
		wrote("kubectl-label", "Update", "", time.Minute, `{"f:metadata":{"f:labels":{"f:drifted":{},"f:taken":{}}}}`),
		wrote("taint-controller", "Apply", "status", time.Hour, `{"f:spec":{"f:taints":{}}}`),
		wrote("broken", "Update", "", time.Second, `{"f:metadata"`),
		{Manager: "empty", Operation: "Update"},
	}
	return f
}

func TestExplain_OwnersAndStandings(t *testing.T) {
	got := everyOwner().run(t, "explain", "node", "workers-0", "-o", "json")
	if got.code != exitOK || got.errors != "" {
		t.Fatalf("%+v", got)
	}
	rows := map[string]string{}
	for _, entry := range decodeJSON[view.NodeExplanation](t, got.out).Entries {
		writers := ""
		for _, manager := range entry.Managers {
			writers += " " + manager.Name
		}
		rows[string(entry.Kind)+" "+entry.Key] = fmt.Sprintf("%s %s%s", entry.Owner, entry.Standing, writers)
	}
	for key, want := range map[string]string{
		"label tier":                   "MachineSet InSync drover-metadata",
		"label drifted":                "MachineSet Differs kubectl-label",
		"label lost":                   "None Missing",
		"label taken":                  "Other Conflict kubectl-label",
		"label dropped":                "MachineSet Leaving",
		"label by-hand":                "Machine InSync drover-metadata",
		"label legacy":                 "Legacy Leaving",
		"label kubernetes.io/os":       "Other Protected kubelet",
		"label foreign":                "Other Undeclared kubelet",
		"label left":                   "Other Undeclared drover-metadata",
		"label released":               "Released Undeclared",
		"annotation example.com/owner": "MachineSet InSync drover-metadata",
		"annotation " + ownership.AnnotationRecord:       "Record Undeclared",
		"annotation " + ownership.AnnotationCustomLabels: "Record Undeclared",
		"taint dedicated:NoSchedule":                     "MachineSet InSync taint-controller drover-metadata",
		"taint startup:NoExecute":                        "None Once",
		"taint warmup:NoSchedule":                        "GivenOnce Undeclared taint-controller drover-metadata",
		"taint foreign:NoExecute":                        "Other Undeclared taint-controller drover-metadata",
	} {
		if rows[key] != want {
			t.Errorf("%s: got %q, want %q", key, rows[key], want)
		}
		delete(rows, key)
	}
	if len(rows) > 0 {
		t.Errorf("unexpected rows: %v", rows)
	}
}

func TestExplain_Text(t *testing.T) {
	f := everyOwner()
	for name, args := range map[string][]string{
		"explain.txt":      {"explain", "workers-0"},
		"explain-wide.txt": {"explain", "node/workers-0", "-o", "wide"},
	} {
		got := f.run(t, args...)
		if got.code != exitOK || got.errors != "" {
			t.Errorf("%+v", got)
		}
		golden(t, name, got.out)
	}
}

func TestExplain_SpecialNodes(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*fakeCluster)
		args string
		want string
	}{
		{"without a Machine", func(f *fakeCluster) { f.machineOf("workers-0").Status.NodeRef = nil }, "", "no Machine names this Node in status.nodeRef"},
		{"in another namespace", func(*fakeCluster) {}, "-n elsewhere", `looked for its Machine in namespace "elsewhere" only`},
		{"paused, with a dropped key", func(f *fakeCluster) {
			f.node("workers-0").Annotations[plan.AnnotationPaused] = "true"
			f.node("workers-0").Annotations[plan.AnnotationPausedReason] = "a move"
		}, "", "held (the Node is paused: a move)"},
		{"a paused MachineSet", func(f *fakeCluster) {
			f.all[0].SetAnnotations(map[string]string{plan.AnnotationPaused: "true"})
		}, "", "no longer: will be removed"},
		{"without a MachineSet", func(f *fakeCluster) {
			f.machineOf("workers-0").OwnerReferences, f.machineOf("workers-0").Labels = nil, nil
		}, "", "<none>"},
		{"a broken record", func(f *fakeCluster) { f.node("workers-0").Annotations[ownership.AnnotationRecord] = "{" }, "",
			"is not a record of owned keys"},
		{"a broken record and no Machine", func(f *fakeCluster) {
			f.node("workers-0").Annotations[ownership.AnnotationRecord] = "{"
			f.machineOf("workers-0").Status.NodeRef = nil
		}, "", "is not a record of owned keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := everyOwner()
			c.edit(f)
			got := f.run(t, append(strings.Fields(c.args), "explain", "workers-0")...)
			if got.code != exitOK || !strings.Contains(got.out, c.want) {
				t.Errorf("%+v", got)
			}
		})
	}
}
