package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

func newGroup(name, uid string) *v1alpha1.NodeGroup {
	return &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid)}}
}

// dataOf returns what a revision holds of a group with the label team.
func dataOf(t rapid.TB, team string) []byte {
	t.Helper()
	group := newGroup("batch", "uid")
	if team != "" {
		group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"team": v1alpha1.LabelValue(team)}}
	}
	data, err := GroupData(group)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// kept returns a revision of a group for each team, numbered from 1.
func kept(t rapid.TB, teams ...string) []*appsv1.ControllerRevision {
	t.Helper()
	subject := OfGroup(newGroup("batch", "uid"))
	var revisions []*appsv1.ControllerRevision
	for i, team := range teams {
		revisions = append(revisions, subject.revision("drover-system", dataOf(t, team), int64(i+1), ""))
	}
	return revisions
}

// teamOf returns the label team of what a revision holds.
func teamOf(t rapid.TB, revision *appsv1.ControllerRevision) string {
	t.Helper()
	group := newGroup("batch", "uid")
	if err := RestoreGroup(group, revision); err != nil {
		t.Fatal(err)
	}
	if group.Spec.Metadata == nil {
		return ""
	}
	return string(group.Spec.Metadata.Labels["team"])
}

// text renders a plan.
func text(t rapid.TB, p Plan) string {
	t.Helper()
	var parts []string
	if p.Create != nil {
		parts = append(parts, fmt.Sprintf("create %s as %d", teamOf(t, p.Create), p.Create.Revision))
	}
	if p.Renumber != nil {
		parts = append(parts, fmt.Sprintf("renumber %s to %d", teamOf(t, p.Renumber), p.Number))
	}
	for _, revision := range p.Delete {
		parts = append(parts, "delete "+teamOf(t, revision))
	}
	if p.NotKept != "" {
		parts = append(parts, "not kept")
	}
	return strings.Join(parts, ", ")
}

func TestDecide(t *testing.T) {
	foreign := func(change func(*appsv1.ControllerRevision)) []*appsv1.ControllerRevision {
		revisions := kept(t, "blue", "red")
		change(revisions[1])
		return revisions
	}
	for name, c := range map[string]struct {
		team      string
		limit     int
		revisions []*appsv1.ControllerRevision
		want      string
	}{
		"the first":                   {"blue", 5, nil, "create blue as 1"},
		"nothing declared":            {"", 5, nil, "create  as 1"},
		"unchanged":                   {"red", 5, kept(t, "blue", "red"), ""},
		"changed":                     {"green", 5, kept(t, "blue", "red"), "create green as 3"},
		"declared again":              {"blue", 5, kept(t, "blue", "red"), "renumber blue to 3"},
		"beyond the limit":            {"d", 2, kept(t, "a", "b", "c"), "create d as 4, delete a"},
		"beyond a limit that shrank":  {"d", 1, kept(t, "a", "b", "c", "d"), "delete a, delete b"},
		"declared again at the limit": {"a", 2, kept(t, "a", "b", "c"), "renumber a to 4"},
		"limit 0 keeps the current":   {"d", 0, kept(t, "a", "b"), "create d as 3, delete a, delete b"},
		"in another order":            {"red", 5, func() []*appsv1.ControllerRevision { r := kept(t, "blue", "red"); slices.Reverse(r); return r }(), ""},
		"numbers with gaps": {"green", 5, func() []*appsv1.ControllerRevision {
			r := kept(t, "blue", "red")
			r[1].Revision = 7
			return r
		}(), "create green as 8"},
		"no owner":                {"red", 0, foreign(func(r *appsv1.ControllerRevision) { r.OwnerReferences = nil }), "create red as 2, delete blue"},
		"an owner of another UID": {"red", 5, foreign(func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].UID = "other" }), "create red as 2"},
		"an owner that is not its controller": {
			"red", 5, foreign(func(r *appsv1.ControllerRevision) { r.OwnerReferences[0].Controller = nil }), "create red as 2",
		},
		"too large": {strings.Repeat("x", MaxData), 1, kept(t, "a", "b", "c"), "delete a, delete b, not kept"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{
				Subject: OfGroup(newGroup("batch", "uid")), Namespace: "drover-system", Data: dataOf(t, c.team), Limit: c.limit, Revisions: c.revisions,
			}
			if got := text(t, Decide(in)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestDecide_Properties: whatever is declared in whatever order, the history ends with what is declared, holds nothing twice, keeps no more than the
// limit, and is at rest then.
func TestDecide_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var revisions []*appsv1.ControllerRevision
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			team := rapid.SampledFrom([]string{"", "a", "b", "c", "d"}).Draw(t, "team")
			limit := rapid.IntRange(0, 4).Draw(t, "limit")
			in := &Input{Subject: OfGroup(newGroup("batch", "uid")), Data: dataOf(t, team), Limit: limit, Revisions: revisions}
			revisions = carryOut(revisions, Decide(in))
			in.Revisions = revisions
			if p := Decide(in); p.Create != nil || p.Renumber != nil || len(p.Delete) > 0 {
				t.Fatalf("not at rest: %+v", p)
			}
			owned := Owned(revisions, "uid")
			if len(owned) > limit+1 || !Holds(owned[len(owned)-1], in.Data) {
				t.Fatalf("%d revisions with a limit of %d, the last is %s", len(owned), limit, owned[len(owned)-1].Data.Raw)
			}
			for i, revision := range owned[:len(owned)-1] {
				if owned[i+1].Revision <= revision.Revision || slices.ContainsFunc(owned[i+1:], func(other *appsv1.ControllerRevision) bool {
					return Holds(other, revision.Data.Raw)
				}) {
					t.Fatalf("revision %d occurs twice", revision.Revision)
				}
			}
		}
	})
}

// carryOut returns the revisions after a plan.
func carryOut(revisions []*appsv1.ControllerRevision, p Plan) []*appsv1.ControllerRevision {
	revisions = slices.Clone(revisions)
	if p.Create != nil {
		revisions = append(revisions, p.Create)
	}
	if p.Renumber != nil {
		p.Renumber.Revision = p.Number
	}
	return slices.DeleteFunc(revisions, func(r *appsv1.ControllerRevision) bool { return slices.Contains(p.Delete, r) })
}

func TestPreviousAndFind(t *testing.T) {
	revisions := Owned(kept(t, "a", "b", "c"), "uid")
	for _, c := range []struct {
		declared string
		want     string
	}{{"c", "b"}, {"b", "c"}, {"edited", "c"}} {
		if got := teamOf(t, Previous(revisions, dataOf(t, c.declared))); got != c.want {
			t.Errorf("with %s declared, the previous revision is %s, want %s", c.declared, got, c.want)
		}
	}
	if Previous(revisions[:1], dataOf(t, "a")) != nil || Previous(nil, nil) != nil {
		t.Error("there is a previous revision")
	}
	if Find(revisions, 2) != revisions[1] || Find(revisions, 9) != nil {
		t.Error("a revision is not found by its number")
	}
}

func TestSubject_Revision(t *testing.T) {
	group := newGroup("batch", "uid")
	name := func(subject Subject, data string) string { return subject.revision("ns", []byte(data), 1, "").Name }
	names := []string{
		name(OfGroup(group), "{}"), name(OfGroup(group), `{"a":1}`), name(OfGroup(newGroup("batch", "other")), "{}"),
		name(OfMachineSet(group, "machines", "batch"), "{}"), name(OfMachineSet(group, "other", "batch"), "{}"),
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("different revisions have the same name: %v", names)
	}
	if again := name(OfGroup(group), "{}"); again != names[0] {
		t.Errorf("the same revision has two names: %s and %s", names[0], again)
	}
	long := name(OfMachineSet(group, "machines", strings.Repeat("a.", 120)), "{}")
	if len(long) > 253 || strings.Contains(long, ".-") {
		t.Errorf("the name is invalid: %s", long)
	}
	subject := OfGroup(group)
	cause := subject.revision("ns", nil, 1, strings.Repeat("é", maxCause)).Annotations[AnnotationCause]
	if len(cause) > maxCause || !strings.HasPrefix(cause, "é") || strings.ContainsRune(cause, '\uFFFD') {
		t.Errorf("the cause has %d bytes", len(cause))
	}
}

func TestRestoreGroup_UnknownField(t *testing.T) {
	revisions := kept(t, "blue")
	revisions[0].Data.Raw = []byte(`{"spec":{"metadata":{"labels":{"team":"blue"},"future":true}}}`)
	if err := RestoreGroup(newGroup("batch", "uid"), revisions[0]); err == nil || !strings.Contains(err.Error(), "future") {
		t.Errorf("the error is %v", err)
	}
}
