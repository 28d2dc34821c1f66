package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/ownership"
)

// world is one MachineSet with one Machine and its Node, and stands in for the API server: patches are applied by the library that it
// uses itself.
type world struct {
	set       *machinev1beta1.MachineSet
	machine   *machinev1beta1.Machine
	node      *corev1.Node
	shared    bool
	protected ownership.Protected
	contended func(Target, ownership.Kind, string) bool
	grouped   Entries
	owned     ownership.Section
	now       time.Time
}

// reporter is what *testing.T and *rapid.T have in common.
type reporter interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// newWorld has a bare Machine and Node, and a MachineSet that declares nothing.
func newWorld() *world {
	w := &world{
		set:       memberSet("workers", "1", map[string]string{"pool": "workers"}),
		machine:   viewMachine("m1", "workers", "n1"),
		node:      &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
		protected: ownership.DefaultProtected(),
		now:       time.Unix(1_700_000_000, 0),
	}
	w.set.Generation, w.machine.ResourceVersion = 1, "1"
	return w
}

// fields reads "a=1 b=2" as a map.
func fields(text string) map[string]string {
	out := map[string]string{}
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		out[key] = value
	}
	return out
}

// list reads "a=1:NoSchedule b:NoExecute" as taints.
func list(text string) []corev1.Taint {
	var out []corev1.Taint
	for _, field := range strings.Fields(text) {
		key, effect := ownership.SplitTaintID(field)
		key, value, _ := strings.Cut(key, "=")
		out = append(out, corev1.Taint{Key: key, Value: value, Effect: effect})
	}
	return out
}

func textOf(entries map[string]string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		switch key {
		case ownership.AnnotationRecord, ownership.AnnotationCustomLabels, ownership.AnnotationGroupRecord:
		default:
			out = append(out, key+"="+entries[key])
		}
	}
	return strings.Join(out, " ")
}

func textOfTaints(taints []corev1.Taint) string {
	var out []string
	for _, taint := range taints {
		text := taint.Key
		if taint.Value != "" {
			text += "=" + taint.Value
		}
		out = append(out, text+":"+string(taint.Effect))
	}
	return strings.Join(out, " ")
}

// labels, annotations and taints replace what the template declares.
func (w *world) labels(text string) *world {
	w.set.Spec.Template.Spec.Labels = fields(text)
	w.set.Generation++
	return w
}

func (w *world) annotations(text string) *world {
	w.set.Spec.Template.Spec.Annotations = fields(text)
	w.set.Generation++
	return w
}

func (w *world) taints(text string) *world {
	w.set.Spec.Template.Spec.Taints = list(text)
	w.set.Generation++
	return w
}

// annotate sets an annotation of the MachineSet itself.
func (w *world) annotate(key, value string) *world {
	metav1.SetMetaDataAnnotation(&w.set.ObjectMeta, key, value)
	return w
}

// onNode puts a value on the Node as another writer would; note does so with an annotation.
func (w *world) onNode(key, value string) { metav1.SetMetaDataLabel(&w.node.ObjectMeta, key, value) }

// nodelink copies what stands on the Machine to the Node, as the machine-api-operator does, and creation with it.
func (w *world) nodelink() {
	for _, kind := range ownership.Kinds {
		for key, value := range map[ownership.Kind]map[string]string{
			ownership.Label: w.machine.Spec.Labels, ownership.Annotation: w.machine.Spec.Annotations,
			ownership.Taint: ownership.TaintEntries(w.machine.Spec.Taints),
		}[kind] {
			if len(validate(kind, key, value)) > 0 || w.protected.Of(kind)(key) {
				continue
			}
			switch kind {
			case ownership.Label:
				w.onNode(key, value)
			case ownership.Annotation:
				w.note(key, value)
			default:
				w.node.Spec.Taints = ownership.ApplyTaints(w.node.Spec.Taints, ownership.Result{Set: map[string]string{key: value}})
			}
		}
	}
}

func (w *world) note(key, value string) {
	metav1.SetMetaDataAnnotation(&w.node.ObjectMeta, key, value)
}

func (w *world) input() Input {
	in := Input{Machine: w.machine, Node: w.node, NodeShared: w.shared, Protected: w.protected, Contended: w.contended, Now: w.now}
	in.Group.Kept, in.Group.Owned = w.grouped, w.owned
	if w.set != nil {
		in.Declaration = DeclarationOf(w.set)
	}
	return in
}

func (w *world) decide() Decision { return Decide(w.input()) }

// pass decides and writes, and checks that a second reconciliation has nothing left to write.
func (w *world) pass(t reporter) Decision {
	t.Helper()
	decision := w.decide()
	if err := w.apply(decision); err != nil {
		t.Fatal(err)
	}
	again := w.decide()
	if again.Machine.Write || again.Node.Write {
		t.Fatalf("a second reconciliation writes again:\nfirst  %+v\nsecond %+v", decision, again)
	}
	if again.State != decision.Settled {
		t.Fatalf("a second reconciliation finds %s, the first promised %s", again.State, decision.Settled)
	}
	return decision
}

// apply sends the patches of a decision.
func (w *world) apply(decision Decision) error {
	_, err := w.applySome(decision, 3)
	return err
}

// applySome sends at most so many patches of a decision, as an operator that is killed then. It returns how many there were.
func (w *world) applySome(decision Decision, most int) (sent int, err error) {
	for _, step := range []struct {
		due  bool
		send func(Decision) error
	}{{decision.RecordUpdate.Write(), w.applyRecord}, {decision.Machine.Write, w.applyMachine}, {decision.Node.Write, w.applyNode}} {
		if !step.due || sent == most {
			continue
		}
		sent++
		if err := step.send(decision); err != nil {
			return sent, err
		}
	}
	return sent, nil
}

func (w *world) applyRecord(decision Decision) error {
	planned := WithRecord(w.node, decision.RecordUpdate)
	patch, err := RecordPatch(w.node, decision.RecordUpdate)
	if err != nil {
		return err
	}
	if w.node, err = patchNode(w.node, patch); err != nil {
		return err
	}
	if !maps.Equal(planned.Annotations, w.node.Annotations) {
		return fmt.Errorf("planned %v, written %v", planned.Annotations, w.node.Annotations)
	}
	return nil
}

func (w *world) applyMachine(decision Decision) error {
	patch, err := MachinePatch(w.machine, decision.Machine)
	if err != nil {
		return err
	}
	w.machine, err = patchMachine(w.machine, patch)
	return err
}

func (w *world) applyNode(decision Decision) error {
	patch, err := NodeChange{Set: &decision.Node}.Patch(w.node)
	if err != nil {
		return err
	}
	w.node, err = patchNode(w.node, patch)
	return err
}

// patchMachine applies a merge patch, and refuses one for another version, as the API server does.
func patchMachine(machine *machinev1beta1.Machine, patch []byte) (*machinev1beta1.Machine, error) {
	before, err := json.Marshal(machine)
	if err != nil {
		return nil, err
	}
	text, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	after := &machinev1beta1.Machine{}
	if err := json.Unmarshal(text, after); err != nil {
		return nil, err
	}
	if after.ResourceVersion != machine.ResourceVersion {
		return nil, fmt.Errorf("409: the patch is for version %s, the Machine has %s", after.ResourceVersion, machine.ResourceVersion)
	}
	version, err := strconv.Atoi(machine.ResourceVersion)
	after.ResourceVersion = strconv.Itoa(version + 1)
	return after, err
}

func patchNode(node *corev1.Node, patch []byte) (*corev1.Node, error) {
	before, err := json.Marshal(node)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	text, err := operations.Apply(before)
	if err != nil {
		return nil, fmt.Errorf("422: %w\npatch: %s", err, patch)
	}
	after := &corev1.Node{}
	if err := json.Unmarshal(text, after); err != nil {
		return nil, err
	}
	for _, kind := range ownership.Kinds {
		old := liveEntries(node, kind)
		for key, value := range liveEntries(after, kind) {
			if invalid := validate(kind, key, value); len(invalid) > 0 && old[key] != value {
				return nil, fmt.Errorf("422: %s %q: %v\npatch: %s", kind, key, invalid, patch)
			}
		}
	}
	return after, nil
}

// where returns in one line what Machine and Node have, without records: "machine labels | taints; node ...".
func (w *world) where() string {
	side := func(labels, annotations map[string]string, taints []corev1.Taint) string {
		var parts []string
		for _, part := range []string{textOf(labels), textOf(annotations), textOfTaints(taints)} {
			if part != "" {
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, " | ")
	}
	return "machine: " + side(w.machine.Spec.Labels, w.machine.Spec.Annotations, w.machine.Spec.Taints) +
		"; node: " + side(w.node.Labels, w.node.Annotations, w.node.Spec.Taints)
}

func (w *world) expect(t reporter, want string) {
	t.Helper()
	if got := w.where(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// record reads the Node's record.
func (w *world) record(t reporter) ownership.Record {
	t.Helper()
	record, err := ownership.ParseRecord(w.node.Annotations[ownership.AnnotationRecord])
	if err != nil {
		t.Fatal(err)
	}
	return record
}

// reasons lists problems as "kind key reason".
func reasons(problems []Problem) string {
	var out []string
	for _, p := range problems {
		out = append(out, fmt.Sprintf("%s %s %s", p.Kind, p.Key, p.Reason))
	}
	return strings.Join(out, ", ")
}

func memberSet(name string, uid types.UID, match map[string]string) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, UID: uid}}
	set.Spec.Selector.MatchLabels = match
	return set
}
