package undecodable

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

func badMachine(name, problem string) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name, UID: "u"}}
	if problem != "" {
		mark(machine, problem)
	}
	return machine
}

// TestTracker: an object is reported once for each problem, and not any longer when it is corrected or gone.
func TestTracker(t *testing.T) {
	tracker, registry := NewTracker(), prometheus.NewRegistry()
	if err := tracker.Register(registry); err != nil {
		t.Fatal(err)
	}
	handler := tracker.Handler()
	recorder := record.NewFakeRecorder(20)
	report := func() string {
		for _, object := range tracker.unreported() {
			recorder.Event(object, corev1.EventTypeWarning, EventUndecodable, Check(object).Error())
		}
		var events []string
		for len(recorder.Events) > 0 {
			events = append(events, <-recorder.Events)
		}
		return strings.Join(events, "\n")
	}
	handler.OnAdd(badMachine("a", ""), true)
	handler.OnAdd(badMachine("b", "spec.x: no number"), true)
	if events := report(); strings.Count(events, "Machine n/b cannot be decoded: spec.x: no number") != 1 || strings.Contains(events, "n/a") {
		t.Errorf("events %q", events)
	}
	handler.OnUpdate(nil, badMachine("b", "spec.x: no number"))
	if events := report(); events != "" {
		t.Errorf("reported again: %q", events)
	}
	handler.OnUpdate(nil, badMachine("a", "spec.y: no date"))
	if events := report(); !strings.Contains(events, "spec.y: no date") {
		t.Errorf("events %q", events)
	}
	count := func() float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		if len(families) == 0 {
			return 0
		}
		return families[0].GetMetric()[0].GetGauge().GetValue()
	}
	if lines := tracker.Lines(); len(lines) != 2 || !strings.HasPrefix(lines[0], "warning: Machine n/a cannot be decoded: ") || count() != 2 {
		t.Errorf("%q, %v", lines, count())
	}
	handler.OnUpdate(nil, badMachine("a", ""))
	handler.OnDelete(toolscache.DeletedFinalStateUnknown{Key: "n/b", Obj: badMachine("b", "spec.x: no number")})
	if lines := tracker.Lines(); len(lines) != 0 || count() != 0 {
		t.Errorf("left: %q, %v", lines, count())
	}
}

// TestTracker_Forget: with the cache of a kind goes what is known of its objects, and not of another kind of that name.
func TestTracker_Forget(t *testing.T) {
	tracker := NewTracker()
	meta := metav1.ObjectMeta{Name: "a"}
	older, newer := &kubevirt.NodeMaintenance{ObjectMeta: meta}, &medik8s.NodeMaintenance{ObjectMeta: meta}
	mark(older, "x")
	mark(newer, "y")
	tracker.Handler().OnAdd(older, true)
	tracker.Handler().OnAdd(newer, true)
	tracker.Forget(&kubevirt.NodeMaintenance{})
	if lines := tracker.Lines(); len(lines) != 1 || !strings.Contains(lines[0], ": y;") {
		t.Errorf("left: %q", lines)
	}
}

// TestTracker_Lines: thousands of objects do not make /readyz unreadable.
func TestTracker_Lines(t *testing.T) {
	tracker := NewTracker()
	for i := range 2000 {
		tracker.Handler().OnAdd(badMachine(fmt.Sprint(i), "x"), true)
	}
	if lines := tracker.Lines(); len(lines) != maxLines+1 || lines[maxLines] != "warning: 1990 more objects cannot be decoded" {
		t.Errorf("%q", lines)
	}
}
