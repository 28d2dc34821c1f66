package machineconfig

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/test/openshift"
)

// nodeUpdate is the update of one Node under a clock of the test.
type nodeUpdate struct {
	t    *testing.T
	opts openshift.Options
	node *corev1.Node
	pods int
	now  time.Time
}

func newNodeUpdate(t *testing.T, opts openshift.Options) *nodeUpdate {
	t.Helper()
	if err := complete(&opts); err != nil {
		t.Fatal(err)
	}
	return &nodeUpdate{t: t, opts: opts, now: start, node: with(newNode("n", "old", "worker"), func(node *corev1.Node) {
		node.Annotations[openshift.AnnotationDesiredConfig] = "new"
	})}
}

// move decides, and has it written.
func (m *nodeUpdate) move() Move {
	m.t.Helper()
	version := map[string]string{"old": "1", "new": "2"}[m.node.Annotations[openshift.AnnotationDesiredConfig]]
	before := m.node.DeepCopy()
	move := Decide(Observation{Node: m.node, Pods: m.pods, Version: version, Now: m.now}, &m.opts)
	if len(changes(before.Annotations, m.node.Annotations)) > 0 || before.Spec.Unschedulable != m.node.Spec.Unschedulable {
		m.t.Error("the decision changed what it was made from")
	}
	m.node = move.Node
	return move
}

// is compares the step, the state and what can be seen of a Node.
func (m *nodeUpdate) is(step openshift.Step, state string, cordoned bool) {
	m.t.Helper()
	got, _ := stepOf(m.node)
	if got != step || m.node.Annotations[openshift.AnnotationState] != state || m.node.Spec.Unschedulable != cordoned {
		m.t.Errorf("at %s it is in step %q, state %s, cordoned %t; want %q, %s, %t", m.now.Sub(start), got, m.node.Annotations[openshift.AnnotationState],
			m.node.Spec.Unschedulable, step, state, cordoned)
	}
}

func (m *nodeUpdate) annotated(key, want string) {
	m.t.Helper()
	if got := m.node.Annotations[key]; got != want {
		m.t.Errorf("%s is %q, want %q", key, got, want)
	}
}

func (m *nodeUpdate) after(d time.Duration) { m.now = m.now.Add(d) }

func (m *nodeUpdate) ready(ready bool) {
	m.node.Status.Conditions[0].Status = corev1.ConditionFalse
	if ready {
		m.node.Status.Conditions[0].Status = corev1.ConditionTrue
	}
}

func TestDecide(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{Drain: time.Second, Config: time.Minute, Reboot: time.Hour, RebootBy: openshift.RebootStatus})
	m.pods = 2
	if move := m.move(); move.Evict {
		t.Error("it evicts before the cordon is written")
	}
	m.is(openshift.StepDrain, openshift.StateWorking, true)
	m.annotated(openshift.AnnotationDesiredDrain, "drain-new")
	m.annotated(openshift.AnnotationLastAppliedDrain, "")
	if move := m.move(); !move.Evict {
		t.Error("it does not evict")
	}
	m.pods = 0
	if move := m.move(); move.Evict || move.Wait != time.Second {
		t.Errorf("without pods it evicts (%t) or waits %s", move.Evict, move.Wait)
	}
	m.after(time.Second)
	if move := m.move(); move.Wait != time.Minute {
		t.Errorf("it waits %s for the configuration", move.Wait)
	}
	m.is(openshift.StepConfig, openshift.StateWorking, true)
	m.annotated(openshift.AnnotationLastAppliedDrain, "drain-new")
	m.after(time.Minute)
	if move := m.move(); move.Ready == nil || *move.Ready {
		t.Error("it does not go down")
	}
	m.is(openshift.StepReboot, openshift.StateWorking, true)
	m.ready(false)
	m.after(time.Minute)
	if move := m.move(); move.Ready != nil || move.Wait != 59*time.Minute {
		t.Errorf("being down it writes %v or waits %s", move.Ready, move.Wait)
	}
	m.annotated(openshift.AnnotationCurrentConfig, "old")
	m.after(59 * time.Minute)
	if move := m.move(); move.Ready == nil || !*move.Ready {
		t.Error("it does not come up")
	}
	m.is(openshift.StepBoot, openshift.StateWorking, true)
	m.ready(true)
	m.move()
	m.is("", openshift.StateDone, false)
	for key, want := range map[string]string{
		openshift.AnnotationCurrentConfig: "new", openshift.AnnotationDesiredConfig: "new", openshift.AnnotationDesiredDrain: "uncordon-new",
		openshift.AnnotationLastAppliedDrain: "uncordon-new", openshift.AnnotationStep: "",
	} {
		m.annotated(key, want)
	}
	if got := m.node.Labels[openshift.VersionKey]; got != "2" {
		t.Errorf("its version is %q", got)
	}
	if rest := m.node; m.move().Wait != 0 || len(changes(rest.Annotations, m.node.Annotations)) > 0 {
		t.Error("it does not rest")
	}
}

// What kwok plays is not written to its status: an annotation asks kwok, and the Node goes on when kwok has done it.
func TestDecide_RebootByKwok(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{})
	m.node.Annotations[annotationKwok] = "fake"
	m.move()
	if move := m.move(); move.Ready != nil {
		t.Error("it writes the status")
	}
	m.is(openshift.StepReboot, openshift.StateWorking, true)
	m.annotated(annotationKwokReady, "false")
	m.ready(false)
	if move := m.move(); move.Ready != nil {
		t.Error("it writes the status")
	}
	m.is(openshift.StepBoot, openshift.StateWorking, true)
	m.annotated(annotationKwokReady, "")
	m.ready(true)
	m.move()
	m.is("", openshift.StateDone, false)
}

func TestDecide_StepsSkipped(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{RebootBy: openshift.RebootSkip, CordonOnly: true})
	m.pods = 5
	m.move()
	m.is(openshift.StepDrain, openshift.StateWorking, true)
	m.move()
	m.is("", openshift.StateDone, false)
	m = newNodeUpdate(t, openshift.Options{NoVersionLabel: true, RebootBy: openshift.RebootSkip})
	m.move()
	m.move()
	if version, there := m.node.Labels[openshift.VersionKey]; there {
		t.Errorf("it has the label, %q", version)
	}
}

func TestDecide_VersionLabelAtRest(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{})
	m.node = newNode("n", "old")
	m.move()
	if m.node.Labels[openshift.VersionKey] != "1" {
		t.Errorf("its version is %q", m.node.Labels[openshift.VersionKey])
	}
	m.node = newNode("n", "unknown")
	m.node.Labels[openshift.VersionKey] = "0"
	m.move()
	if m.node.Labels[openshift.VersionKey] != "0" {
		t.Error("it changes the label to a version that it does not know")
	}
}

func TestDecide_Degraded(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{})
	m.node.Annotations[openshift.AnnotationDegrade] = "disk full"
	m.move()
	m.is(openshift.StepDrain, openshift.StateWorking, true)
	m.move()
	m.is(openshift.StepConfig, openshift.StateDegraded, true)
	m.annotated(openshift.AnnotationReason, "disk full")
	if move := m.move(); move.Wait != 0 || move.Ready != nil {
		t.Errorf("degraded it goes on: %+v", move)
	}
	delete(m.node.Annotations, openshift.AnnotationDegrade)
	m.move()
	m.is(openshift.StepReboot, openshift.StateWorking, true)
	m.annotated(openshift.AnnotationReason, "")

	m = newNodeUpdate(t, openshift.Options{Degrade: map[string]string{"n": "by option"}})
	m.move()
	m.move()
	m.annotated(openshift.AnnotationReason, "by option")
}

func TestDecide_DegradedNodeReverted(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{Degrade: map[string]string{"n": "disk full"}})
	m.move()
	m.move()
	m.is(openshift.StepConfig, openshift.StateDegraded, true)
	m.node.Annotations[openshift.AnnotationDesiredConfig] = "old"
	m.move()
	m.is("", openshift.StateDone, false)
	m.annotated(openshift.AnnotationCurrentConfig, "old")
}

func TestDecide_DegradeAnnotationAtRest(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{})
	m.node = newNode("n", "old")
	m.node.Annotations[openshift.AnnotationDegrade] = "disk full"
	m.move()
	m.is("", openshift.StateDone, false)
}

func TestDecide_Hang(t *testing.T) {
	for _, step := range openshift.Steps {
		m := newNodeUpdate(t, openshift.Options{RebootBy: openshift.RebootStatus})
		m.node.Annotations[openshift.AnnotationHang] = string(step)
		for range 10 {
			if move := m.move(); move.Ready != nil {
				m.ready(*move.Ready)
			}
			m.after(time.Hour)
		}
		m.is(step, openshift.StateWorking, true)
		if down := step == openshift.StepReboot; reportsReady(m.node) == down {
			t.Errorf("it hangs in %s and is Ready: %t", step, reportsReady(m.node))
		}
		delete(m.node.Annotations, openshift.AnnotationHang)
		for range 10 {
			if move := m.move(); move.Ready != nil {
				m.ready(*move.Ready)
			}
		}
		m.is("", openshift.StateDone, false)
	}
}

// Whatever is lost between two writes, the annotations are enough to go on.
func TestDecide_ResumesFromAnnotations(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{Drain: time.Minute, Config: time.Minute, Reboot: time.Minute, RebootBy: openshift.RebootStatus})
	begin := m.now
	for range 50 {
		move := m.move()
		if move.Ready != nil {
			m.ready(*move.Ready)
		}
		m.after(10 * time.Second) // a process that ended was not there to see time go by
		if isDone(m.node) {
			break
		}
	}
	m.is("", openshift.StateDone, false)
	if took := m.now.Sub(begin); took < 3*time.Minute || took > 4*time.Minute {
		t.Errorf("three steps of a minute took %s", took)
	}
}

func TestDecide_NodesLeftAlone(t *testing.T) {
	m := newNodeUpdate(t, openshift.Options{})
	delete(m.node.Annotations, openshift.AnnotationCurrentConfig)
	m.move()
	m.is("", openshift.StateDone, false)
	m = newNodeUpdate(t, openshift.Options{})
	m.node.Annotations[openshift.AnnotationStep] = "drain whenever"
	m.move()
	m.is(openshift.StepDrain, openshift.StateWorking, true) // it begins anew
}

func TestOptionsValidate(t *testing.T) {
	for _, wrong := range []openshift.Options{{WorkersAt: "Never"}, {RebootBy: "Hammer"}, {Hang: map[string]string{"n": "sleep"}}} {
		if err := wrong.Validate(); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	if err := (&openshift.Options{Hang: map[string]string{"n": "true", "m": "drain"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// An update to a rendered MachineConfig with the same contents, as a Node gets in another pool, does not disturb the Node.
func TestDecide_SameContents(t *testing.T) {
	hash := "0123456789abcdef0123456789abcdef"
	m := newNodeUpdate(t, openshift.Options{Reboot: time.Hour})
	m.node.Annotations[openshift.AnnotationCurrentConfig] = renderedPrefix + "a-" + hash
	m.node.Annotations[openshift.AnnotationDesiredConfig] = renderedPrefix + "b-" + hash
	m.move()
	m.is("", openshift.StateDone, false)
	m.annotated(openshift.AnnotationCurrentConfig, renderedPrefix+"b-"+hash)
	for _, other := range []string{"", "b-" + hash, renderedPrefix + "b-" + hash[1:] + "0"} {
		if sameContents(renderedPrefix+"a-"+hash, other) {
			t.Errorf("%s is taken for the same", other)
		}
	}
}
