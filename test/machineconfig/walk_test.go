package machineconfig

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// march walks one Node by the clock.
type march struct {
	t    *testing.T
	opts Options
	node *corev1.Node
	pods int
	now  time.Time
}

func newMarch(t *testing.T, opts Options) *march {
	t.Helper()
	if err := opts.complete(); err != nil {
		t.Fatal(err)
	}
	return &march{t: t, opts: opts, now: start, node: with(newNode("n", "old", "worker"), func(node *corev1.Node) {
		node.Annotations[AnnotationDesiredConfig] = "new"
	})}
}

// move decides, and has it written.
func (m *march) move() Move {
	m.t.Helper()
	version := map[string]string{"old": "1", "new": "2"}[m.node.Annotations[AnnotationDesiredConfig]]
	before := m.node.DeepCopy()
	move := Decide(Sight{Node: m.node, Pods: m.pods, Version: version, Now: m.now}, &m.opts)
	if len(changes(before.Annotations, m.node.Annotations)) > 0 || before.Spec.Unschedulable != m.node.Spec.Unschedulable {
		m.t.Error("the decision changed what it was made from")
	}
	m.node = move.Node
	return move
}

// is compares the step, the state and what can be seen of a Node.
func (m *march) is(step Step, state string, cordoned bool) {
	m.t.Helper()
	got, _ := stepOf(m.node)
	if got != step || m.node.Annotations[AnnotationState] != state || m.node.Spec.Unschedulable != cordoned {
		m.t.Errorf("at %s it is in step %q, state %s, cordoned %t; want %q, %s, %t", m.now.Sub(start), got, m.node.Annotations[AnnotationState],
			m.node.Spec.Unschedulable, step, state, cordoned)
	}
}

func (m *march) annotated(key, want string) {
	m.t.Helper()
	if got := m.node.Annotations[key]; got != want {
		m.t.Errorf("%s is %q, want %q", key, got, want)
	}
}

func (m *march) after(d time.Duration) { m.now = m.now.Add(d) }

func (m *march) ready(ready bool) {
	m.node.Status.Conditions[0].Status = corev1.ConditionFalse
	if ready {
		m.node.Status.Conditions[0].Status = corev1.ConditionTrue
	}
}

func TestWalk(t *testing.T) {
	m := newMarch(t, Options{Drain: time.Second, Config: time.Minute, Reboot: time.Hour, RebootBy: RebootStatus})
	m.pods = 2
	if move := m.move(); move.Evict {
		t.Error("it evicts before the cordon is written")
	}
	m.is(StepDrain, StateWorking, true)
	m.annotated(AnnotationDesiredDrain, "drain-new")
	m.annotated(AnnotationLastAppliedDrain, "")
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
	m.is(StepConfig, StateWorking, true)
	m.annotated(AnnotationLastAppliedDrain, "drain-new")
	m.after(time.Minute)
	if move := m.move(); move.Ready == nil || *move.Ready {
		t.Error("it does not go down")
	}
	m.is(StepReboot, StateWorking, true)
	m.ready(false)
	m.after(time.Minute)
	if move := m.move(); move.Ready != nil || move.Wait != 59*time.Minute {
		t.Errorf("being down it writes %v or waits %s", move.Ready, move.Wait)
	}
	m.annotated(AnnotationCurrentConfig, "old")
	m.after(59 * time.Minute)
	if move := m.move(); move.Ready == nil || !*move.Ready {
		t.Error("it does not come up")
	}
	m.is(StepBoot, StateWorking, true)
	m.ready(true)
	m.move()
	m.is("", StateDone, false)
	for key, want := range map[string]string{
		AnnotationCurrentConfig: "new", AnnotationDesiredConfig: "new", AnnotationDesiredDrain: "uncordon-new",
		AnnotationLastAppliedDrain: "uncordon-new", AnnotationStep: "",
	} {
		m.annotated(key, want)
	}
	if got := m.node.Labels[VersionKey]; got != "2" {
		t.Errorf("its version is %q", got)
	}
	if rest := m.node; m.move().Wait != 0 || len(changes(rest.Annotations, m.node.Annotations)) > 0 {
		t.Error("it does not rest")
	}
}

// What kwok plays is not written to its status: an annotation asks kwok, and the Node goes on when kwok has done it.
func TestRebootByKwok(t *testing.T) {
	m := newMarch(t, Options{})
	m.node.Annotations[annotationKwok] = "fake"
	m.move()
	if move := m.move(); move.Ready != nil {
		t.Error("it writes the status")
	}
	m.is(StepReboot, StateWorking, true)
	m.annotated(annotationKwokReady, "false")
	m.ready(false)
	if move := m.move(); move.Ready != nil {
		t.Error("it writes the status")
	}
	m.is(StepBoot, StateWorking, true)
	m.annotated(annotationKwokReady, "")
	m.ready(true)
	m.move()
	m.is("", StateDone, false)
}

func TestShortWalks(t *testing.T) {
	m := newMarch(t, Options{RebootBy: RebootSkip, CordonOnly: true})
	m.pods = 5
	m.move()
	m.is(StepDrain, StateWorking, true)
	m.move()
	m.is("", StateDone, false)
	m = newMarch(t, Options{NoVersionLabel: true, RebootBy: RebootSkip})
	m.move()
	m.move()
	if version, there := m.node.Labels[VersionKey]; there {
		t.Errorf("it has the label, %q", version)
	}
}

func TestVersionLabelAtRest(t *testing.T) {
	m := newMarch(t, Options{})
	m.node = newNode("n", "old")
	m.move()
	if m.node.Labels[VersionKey] != "1" {
		t.Errorf("its version is %q", m.node.Labels[VersionKey])
	}
	m.node = newNode("n", "unknown")
	m.node.Labels[VersionKey] = "0"
	m.move()
	if m.node.Labels[VersionKey] != "0" {
		t.Error("it changes the label to a version that it does not know")
	}
}

func TestDegrade(t *testing.T) {
	m := newMarch(t, Options{})
	m.node.Annotations[AnnotationDegrade] = "disk full"
	m.move()
	m.is(StepDrain, StateWorking, true)
	m.move()
	m.is(StepConfig, StateDegraded, true)
	m.annotated(AnnotationReason, "disk full")
	if move := m.move(); move.Wait != 0 || move.Ready != nil {
		t.Errorf("degraded it goes on: %+v", move)
	}
	delete(m.node.Annotations, AnnotationDegrade)
	m.move()
	m.is(StepReboot, StateWorking, true)
	m.annotated(AnnotationReason, "")

	m = newMarch(t, Options{Degrade: map[string]string{"n": "by option"}})
	m.move()
	m.move()
	m.annotated(AnnotationReason, "by option")
}

func TestADegradedNodeIsSentBack(t *testing.T) {
	m := newMarch(t, Options{Degrade: map[string]string{"n": "disk full"}})
	m.move()
	m.move()
	m.is(StepConfig, StateDegraded, true)
	m.node.Annotations[AnnotationDesiredConfig] = "old"
	m.move()
	m.is("", StateDone, false)
	m.annotated(AnnotationCurrentConfig, "old")
}

func TestADegradingNodeAtRestIsWell(t *testing.T) {
	m := newMarch(t, Options{})
	m.node = newNode("n", "old")
	m.node.Annotations[AnnotationDegrade] = "disk full"
	m.move()
	m.is("", StateDone, false)
}

func TestHang(t *testing.T) {
	for _, step := range steps {
		m := newMarch(t, Options{RebootBy: RebootStatus})
		m.node.Annotations[AnnotationHang] = string(step)
		for range 10 {
			if move := m.move(); move.Ready != nil {
				m.ready(*move.Ready)
			}
			m.after(time.Hour)
		}
		m.is(step, StateWorking, true)
		if down := step == StepReboot; reportsReady(m.node) == down {
			t.Errorf("it hangs in %s and is Ready: %t", step, reportsReady(m.node))
		}
		delete(m.node.Annotations, AnnotationHang)
		for range 10 {
			if move := m.move(); move.Ready != nil {
				m.ready(*move.Ready)
			}
		}
		m.is("", StateDone, false)
	}
}

// Whatever is lost between two writes, the annotations are enough to go on.
func TestAWalkIsInItsAnnotations(t *testing.T) {
	m := newMarch(t, Options{Drain: time.Minute, Config: time.Minute, Reboot: time.Minute, RebootBy: RebootStatus})
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
	m.is("", StateDone, false)
	if took := m.now.Sub(begin); took < 3*time.Minute || took > 4*time.Minute {
		t.Errorf("three steps of a minute took %s", took)
	}
}

func TestWhoDoesNotWalk(t *testing.T) {
	m := newMarch(t, Options{})
	delete(m.node.Annotations, AnnotationCurrentConfig)
	m.move()
	m.is("", StateDone, false)
	m = newMarch(t, Options{})
	m.node.Annotations[AnnotationStep] = "drain whenever"
	m.move()
	m.is(StepDrain, StateWorking, true) // it begins anew
}

func TestOptions(t *testing.T) {
	for _, wrong := range []Options{{WorkersAt: "Never"}, {RebootBy: "Hammer"}, {Hang: map[string]string{"n": "sleep"}}} {
		if err := wrong.Validate(); err == nil {
			t.Errorf("%+v is taken", wrong)
		}
	}
	if err := (&Options{Hang: map[string]string{"n": "true", "m": "drain"}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestTheSameContents states that an update to a rendered MachineConfig with the same in it, as a Node gets in another pool, disturbs nobody.
func TestTheSameContents(t *testing.T) {
	hash := "0123456789abcdef0123456789abcdef"
	m := newMarch(t, Options{Reboot: time.Hour})
	m.node.Annotations[AnnotationCurrentConfig] = renderedPrefix + "a-" + hash
	m.node.Annotations[AnnotationDesiredConfig] = renderedPrefix + "b-" + hash
	m.move()
	m.is("", StateDone, false)
	m.annotated(AnnotationCurrentConfig, renderedPrefix+"b-"+hash)
	for _, other := range []string{"", "b-" + hash, renderedPrefix + "b-" + hash[1:] + "0"} {
		if sameContents(renderedPrefix+"a-"+hash, other) {
			t.Errorf("%s is taken for the same", other)
		}
	}
}
