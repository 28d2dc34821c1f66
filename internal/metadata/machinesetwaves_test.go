package metadata

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/undecodable"
)

// wavesFixture is a fixture with the controller of waves, a MachineSet "a" and its Machines m0 to m3 with the Nodes n0 to n3.
type wavesFixture struct {
	*fixture
	waves *waves
	set   *machinev1beta1.MachineSet
}

// oneAtATime has waves of one Node, an hour apart.
func oneAtATime() *v1alpha1.Rollout {
	return &v1alpha1.Rollout{MaxInFlight: new(intstr.FromInt32(1)), Pause: &metav1.Duration{Duration: time.Hour}}
}

func newWavesFixture(t *testing.T, settings *v1alpha1.Rollout, more ...client.Object) *wavesFixture {
	t.Helper()
	set := setOf("a", map[string]string{"team": "blue"})
	objects := append([]client.Object{set}, more...)
	for _, i := range []string{"0", "1", "2", "3"} {
		node := builder.Node("n" + i)
		node.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
		objects = append(objects, machineOf(set, "m"+i, "n"+i), node)
	}
	f := &wavesFixture{set: set}
	f.fixture = newFixture(t, Options{Rollout: settings}, objects...)
	f.restart(settings)
	return f
}

// restart has the next process go on.
func (f *wavesFixture) restart(settings *v1alpha1.Rollout) {
	f.Reconciler.gate = &gate.Gate{}
	f.waves = newWaves(f.Reconciler, settings, &RolloutStore{Live: f.client, Writer: f.client, Namespace: "drover"})
}

// step compares the Nodes that advance writes.
func (f *wavesFixture) step(t *testing.T, after time.Duration, want string) reconcile.Result {
	t.Helper()
	got, result := f.advance(t, after)
	if got != want {
		t.Fatalf("written are the Nodes %q, want %q", got, want)
	}
	return result
}

// advance reconciles the Machines some time later, then the MachineSet, then the Machines again, and returns the Nodes that were written.
func (f *wavesFixture) advance(t *testing.T, after time.Duration) (written string, result reconcile.Result) {
	t.Helper()
	f.clock.SetTime(f.clock.Now().Add(after))
	before := f.machines(t)
	result, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(before, f.machines(t)...), " "), result
}

// machines reconciles the Machines, and returns the Nodes of the Machines that were written.
func (f *wavesFixture) machines(t *testing.T) (written []string) {
	t.Helper()
	for _, machine := range []string{"m0", "m1", "m2", "m3"} {
		if _, sent, err := f.reconcile(t, machine); err != nil {
			t.Fatal(err)
		} else if sent != "" {
			written = append(written, "n"+strings.TrimPrefix(machine, "m"))
		}
	}
	return written
}

// declare changes a label of the template.
func (f *wavesFixture) declare(t *testing.T, team string) {
	t.Helper()
	apitest.Edit(t, f.client, f.set, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"team": team}
		set.Generation++
	})
}

func (f *wavesFixture) annotate(t *testing.T, key, value string) {
	t.Helper()
	apitest.Edit(t, f.client, f.set, func(set *machinev1beta1.MachineSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[key] = value
	})
}

// setReady sets the condition Ready of a Node at the present time.
func (f *wavesFixture) setReady(t *testing.T, node string, ready corev1.ConditionStatus) {
	t.Helper()
	found := builder.Node(node)
	if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(found), found); err != nil {
		t.Fatal(err)
	}
	found.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(f.clock.Now())}}
	if err := f.client.Status().Update(t.Context(), found); err != nil {
		t.Fatal(err)
	}
}

// kept returns what the ConfigMap has.
// stopped returns the metric for the MachineSet; -1 for no series.
func (f *wavesFixture) stopped(t *testing.T) float64 {
	t.Helper()
	return apitest.Metric(t, f.gather, "drover_metadata_rollout_stopped", "a", f.set.Namespace)
}

func (f *wavesFixture) kept(t *testing.T) map[string]string {
	t.Helper()
	found := &corev1.ConfigMap{}
	err := f.client.Get(t.Context(), types.NamespacedName{Namespace: "drover", Name: ConfigMapName}, found)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return found.Data
}

func TestWaves_PauseSurvivesARestart(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.must(t, "m0", "")
	f.step(t, 0, "n0")
	result := f.step(t, 6*time.Second, "")
	if result.RequeueAfter != recheckWave {
		t.Errorf("the roll-out is looked at again after %s", result.RequeueAfter)
	}
	if kept := f.kept(t); len(kept) != 1 || !strings.Contains(kept[string(f.set.UID)], `"wave":"2/4"`) {
		t.Errorf("the ConfigMap has %v", kept)
	}
	f.restart(oneAtATime())
	f.step(t, 59*time.Minute, "")
	f.step(t, time.Minute, "n1")
	f.step(t, 6*time.Second, "")
	f.restart(oneAtATime())
	f.step(t, time.Hour, "n2")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n3")
	f.step(t, 6*time.Second, "")
	if kept := f.kept(t); len(kept) != 0 {
		t.Errorf("after the roll-out the ConfigMap has %v", kept)
	}
	if got := f.emitted(); got != "Normal MetadataSynced" {
		t.Errorf("events %s", got)
	}
}

func TestWaves_RepairsAndNewNodesDoNotWait(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	f.step(t, 6*time.Second, "")
	apitest.Edit(t, f.client, builder.Node("n0"), func(n *corev1.Node) { n.Labels["team"] = "mine" })
	f.must(t, "m0", "Node/n0")
	added := builder.Node("n4")
	added.CreationTimestamp = metav1.NewTime(f.clock.Now())
	created := machineOf(f.set, "m4", "n4")
	created.Spec.Labels = map[string]string{"team": "blue"}
	for _, object := range []client.Object{added, created, machineOf(f.set, "m5", "")} {
		if err := f.client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	f.must(t, "m4", "Machine/m4 Node/n4")
	// Without a Node nothing is disturbed.
	f.must(t, "m5", "Machine/m5")
}

func TestWaves_ChangedDeclarationStartsOver(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	f.declare(t, "red")
	// What was admitted for the other declaration is not for this one.
	f.must(t, "m0", "")
	f.step(t, time.Second, "n0")
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n1")
}

func TestWaves_PausedMachineSet(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	f.annotate(t, paused.Annotation, "true")
	f.step(t, 6*time.Second, "")
	f.step(t, 2*time.Hour, "")
	f.annotate(t, paused.Annotation, "false")
	// The end of the first wave is only seen now.
	f.step(t, time.Second, "")
	f.step(t, time.Hour, "n1")
}

func TestWaves_StopAndResume(t *testing.T) {
	settings := oneAtATime()
	settings.Pause = nil
	f := newWavesFixture(t, settings)
	for _, node := range []string{"n0", "n1", "n2", "n3"} {
		f.setReady(t, node, corev1.ConditionTrue)
	}
	f.step(t, time.Second, "n0")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.setReady(t, "n0", corev1.ConditionFalse)
	f.step(t, 6*time.Second, "")
	if got := f.emitted(); got != "Warning MetadataRolloutStopped" {
		t.Errorf("events %s", got)
	}
	// A stop lasts, also in the next process, and is not reported again.
	f.setReady(t, "n0", corev1.ConditionTrue)
	f.restart(settings)
	f.metrics.reset()
	f.step(t, time.Minute, "")
	if got := f.emitted(); got != "" {
		t.Errorf("events %s", got)
	}
	if got := f.stopped(t); got != 1 {
		t.Errorf("the metric says %v", got)
	}
	f.annotate(t, v1alpha1.AnnotationResume, f.clock.Now().Add(2*time.Second).UTC().Format(time.RFC3339))
	f.step(t, 6*time.Second, "n1")
	if got := f.stopped(t); got != 0 {
		t.Errorf("the metric says %v of one that goes on", got)
	}
}

func TestWaves_DeniedNodeDoesNotHoldUpOthers(t *testing.T) {
	settings := oneAtATime()
	settings.Pause = nil
	f := newWavesFixture(t, settings)
	f.fail["Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n0", nil)
	f.step(t, 0, "n0")
	f.fail = nil
	f.step(t, 6*time.Second, "n0 n1")
}

func TestWaves_DeletedMachineSet(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	if err := f.client.Delete(t.Context(), f.set); err != nil {
		t.Fatal(err)
	}
	if _, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")}); err != nil {
		t.Fatal(err)
	}
	admitted := f.Reconciler.gate.Admits(f.set.UID, f.waves.machineSets.parse(f.set).declaration.Revision, "n0")
	if f.stopped(t) != -1 || f.waves.store.get(f.set.UID) != nil || admitted || f.waves.states.Len() != 0 {
		t.Error("its roll-out is known")
	}
	f.restart(oneAtATime())
	if err := f.waves.store.load(t.Context(), f.waves.exists(t.Context())); err != nil || f.waves.store.get(f.set.UID) != nil {
		t.Errorf("the next process: %v, knows %v", err, f.waves.store.get(f.set.UID))
	}
}

func TestRolloutStore_EntriesThatAreIgnored(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	before := applyv1.ConfigMap(ConfigMapName, "drover").WithData(map[string]string{string(f.set.UID): "{", "uid-of-another": "{}"})
	if err := f.client.Apply(t.Context(), before, FieldOwner); err != nil {
		t.Fatal(err)
	}
	f.step(t, 0, "n0")
	if kept := f.kept(t); len(kept) != 1 || !strings.Contains(kept[string(f.set.UID)], `"wave":"1/4"`) {
		t.Errorf("the ConfigMap has %v", kept)
	}
}

// TestRolloutStore_AnotherProcess: a ConfigMap that another process has changed meanwhile is read again, and not overwritten.
func TestRolloutStore_AnotherProcess(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	other := applyv1.ConfigMap(ConfigMapName, "drover").WithData(f.kept(t)).WithLabels(map[string]string{"changed": "yes"})
	if err := f.client.Apply(t.Context(), other, FieldOwner); err != nil {
		t.Fatal(err)
	}
	f.clock.SetTime(f.clock.Now().Add(6 * time.Second))
	result, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")})
	if err != nil || result.RequeueAfter > time.Second {
		t.Fatalf("after a conflict: %v, %v", result, err)
	}
	f.step(t, 6*time.Second, "")
	f.step(t, time.Hour, "n1")
}

// TestWaves_UndecodableMachine: a Machine that cannot be decoded, and is left alone, does not keep the others from getting what is declared.
func TestWaves_UndecodableMachine(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	apitest.Edit(t, f.client, machineOf(f.set, "m0", "n0"), func(machine *machinev1beta1.Machine) {
		machine.Annotations = map[string]string{undecodable.Annotation: apitest.UndecodableMark(t)}
	})
	f.must(t, "m1", "")
	if _, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")}); err != nil {
		t.Fatal(err)
	}
	f.must(t, "m1", "Machine/m1 Node/n1")
	if _, sent, err := f.reconcile(t, "m0"); !undecodable.Is(err) || sent != "" {
		t.Errorf("the Machine that cannot be decoded: %q, %v", sent, err)
	}
}

// TestRolloutStore_EntryRemoved: what this process knows counts, and is written again.
func TestRolloutStore_EntryRemoved(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.step(t, 0, "n0")
	if err := f.client.Apply(t.Context(), applyv1.ConfigMap(ConfigMapName, "drover").WithData(nil), FieldOwner); err != nil {
		t.Fatal(err)
	}
	f.clock.SetTime(f.clock.Now().Add(6 * time.Second))
	if _, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")}); err != nil {
		t.Fatal(err)
	}
	f.step(t, 6*time.Second, "")
	if kept := f.kept(t); len(kept) != 1 {
		t.Errorf("the ConfigMap has %v", kept)
	}
	f.step(t, time.Hour, "n1")
}

// TestRolloutStore_CannotWrite: no Node is written before it is recorded where the roll-out is.
func TestRolloutStore_CannotWrite(t *testing.T) {
	f := newWavesFixture(t, oneAtATime())
	f.waves.store.Writer = client.NewNamespacedClient(f.client, "elsewhere")
	f.machines(t)
	if _, err := f.waves.Reconcile(t.Context(), reconcile.Request{NamespacedName: named("a")}); err == nil ||
		!strings.Contains(err.Error(), "writing ConfigMap drover/drover-metadata-rollouts") {
		t.Errorf("%v", err)
	}
	f.must(t, "m0", "")
	f.waves.store.Writer = f.client
	f.step(t, 6*time.Second, "n0")
}
