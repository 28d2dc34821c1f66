package plan

import (
	"fmt"
	"math"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/paused"
)

func TestReplace(t *testing.T) {
	failed := func(name string, age time.Duration, attempt int, edits ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
		edits = append(edits, aged(age), inPhase("Failed"))
		if attempt > 0 {
			edits = append(edits, annotated(AttemptAnnotation, fmt.Sprint(attempt)))
		}
		return machineOf(name, edits...)
	}
	young := func(name string, age time.Duration, edits ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
		return machineOf(name, append(edits, aged(age), annotated(AttemptAnnotation, "1"))...)
	}
	for _, c := range []struct {
		name     string
		machines []*machinev1beta1.Machine
		want     string
	}{
		{"none has failed", []*machinev1beta1.Machine{machineOf("a")}, ""},
		{"one has an error, but may get over it", []*machinev1beta1.Machine{machineOf("a", withError("UpdateError", "no"), inPhase("Running"))}, ""},
		{"one failed after days", []*machinev1beta1.Machine{failed("a", 48*time.Hour, 0)}, "replace a by attempt 1"},
		{"one failed at once: not yet", []*machinev1beta1.Machine{failed("a", 10*time.Second, 0)}, "wake in 50s"},
		{"one failed at once: a minute later", []*machinev1beta1.Machine{failed("a", time.Minute, 0)}, "replace a by attempt 1"},
		{"a replacement failed, too", []*machinev1beta1.Machine{failed("a", time.Minute, 1)}, "wake in 1m0s"},
		{"a replacement failed, two minutes later", []*machinev1beta1.Machine{failed("a", 2*time.Minute, 1)}, "replace a by attempt 2"},
		{"the sixth", []*machinev1beta1.Machine{failed("a", 31*time.Minute, 5)}, "wake in 1m0s"},
		{"the seventh waits no longer than an hour", []*machinev1beta1.Machine{failed("a", 30*time.Minute, 6)}, "wake in 30m0s"},
		{"nor does the hundredth", []*machinev1beta1.Machine{failed("a", time.Hour, 100)}, "replace a by attempt 101"},
		{"the largest count does not overflow", []*machinev1beta1.Machine{failed("a", time.Hour, math.MaxInt)}, "replace a by attempt 1000001"},
		{"several: one at a time, the oldest first", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), failed("b", 3*time.Hour, 0)},
			"replace b by attempt 1"},
		{"several of the same age", []*machinev1beta1.Machine{failed("b", 2*time.Hour, 0), failed("a", 2*time.Hour, 0)}, "replace a by attempt 1"},
		{"several, and a replacement that still boots", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), young("b", 5*time.Minute, noNode)},
			"wake in 55m0s"},
		{"several, and a replacement that never boots", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), young("b", time.Hour, noNode)},
			"replace a by attempt 1"},
		{"several, and a replacement that works: the back-off is over", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), young("b", 5*time.Minute)},
			"replace a by attempt 1"},
		{"several, and a replacement that failed: it will fare no better",
			[]*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), failed("b", 3*time.Minute, 2)}, "wake in 1m0s"},
		{"the same, when it may be tried again", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0), failed("b", 4*time.Minute, 2)},
			"replace a by attempt 3"},
		{"paused", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0, annotated(paused.ClusterAPIAnnotation, ""))}, ""},
		{"another API's", []*machinev1beta1.Machine{failed("a", 2*time.Hour, 0, migrated)}, ""},
		{"an annotation that says nothing", []*machinev1beta1.Machine{failed("a", time.Minute, 0, annotated(AttemptAnnotation, "x"))},
			"replace a by attempt 1"},
		{"an annotation that makes no sense", []*machinev1beta1.Machine{failed("a", time.Minute, 0, annotated(AttemptAnnotation, "-3"))},
			"replace a by attempt 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := inputOf(setOf(0), c.machines...)
			for range c.machines {
				*in.Set.Spec.Replicas++
			}
			want := fmt.Sprintf("members [%s]", names(c.machines))
			if got := brief(Decide(in)); got != want {
				t.Errorf("although it is off: %s", got)
			}
			if in.ReplaceFailed = true; c.want != "" {
				want += " " + c.want
			}
			if got := brief(Decide(in)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// Who scales up has Machines created first, who scales down has failed ones deleted anyway.
func TestReplace_NotWhileScaling(t *testing.T) {
	for replicas, want := range map[int32]string{
		0: "members [a] delete [a]", 1: "members [a] replace a by attempt 1", 2: "members [a] create 1",
	} {
		in := inputOf(setOf(replicas), machineOf("a", inPhase("Failed")))
		in.ReplaceFailed = true
		if got := brief(Decide(in)); got != want {
			t.Errorf("%d: %s", replicas, got)
		}
	}
}

// A template that can never work costs one instance an hour before long, and each restart of the process finds the back-off as it was.
func TestReplace_Backoff(t *testing.T) {
	now, replaced := start, 0
	machine := machineOf("m", aged(0), inPhase("Failed"))
	for now.Before(start.Add(24 * time.Hour)) {
		in := inputOf(setOf(1), machine)
		in.ReplaceFailed, in.Now = true, now
		d := Decide(in)
		if d.Replace == nil {
			now = d.Wake
			continue
		}
		replaced++
		machine = machineOf("m", aged(start.Sub(now)), inPhase("Failed"), annotated(AttemptAnnotation, fmt.Sprint(d.Attempt)))
	}
	// Minutes 1, 3, 7, 15, 31, 63, then once an hour.
	if replaced != 6+22 {
		t.Errorf("%d replacements in a day", replaced)
	}
}
