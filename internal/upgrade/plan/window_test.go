package plan

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

func TestRun_WaitsForWindows(t *testing.T) {
	// The test's time is a Wednesday, 12:00 in UTC and 14:00 in Berlin.
	window := func(schedule, zone string) []v1alpha1.Window {
		return []v1alpha1.Window{{Schedule: schedule, TimeZone: zone, Duration: metav1.Duration{Duration: time.Hour}}}
	}
	for name, test := range map[string]struct {
		windows       []v1alpha1.Window
		wait, problem string
		wake          time.Duration
	}{
		"none": {},
		"open": {windows: window("30 11 * * *", ""), wake: 30 * time.Minute},
		"opens later": {
			windows: window("0 16 * * *", "Europe/Berlin"), wake: 2 * time.Hour,
			wait: "no maintenance window is open; the next one opens at 2026-07-01T14:00Z",
		},
		"never opens": {windows: window("0 0 30 2 *", ""), wait: "no maintenance window is open"},
		"invalid": {
			windows: window("TZ=UTC", ""), problem: `spec.windows[0]: schedule "TZ=UTC": it must be five fields of cron; set the time zone in timeZone`,
		},
		"no such zone":  {windows: window("0 11 * * *", "Mars/Olympus"), problem: "spec.windows[0]: timeZone: unknown time zone Mars/Olympus"},
		"open no time":  {windows: []v1alpha1.Window{{Schedule: "@daily"}}, problem: "spec.windows[0]: duration 0s: it must be open for some time"},
		"second is bad": {windows: append(window("0 11 * * *", ""), window("", "")...), problem: `spec.windows[1]: schedule "": empty spec string`},
	} {
		t.Run(name, func(t *testing.T) {
			run := &Run{Config: &v1alpha1.MutexRunConfig{}, Completed: true, Now: testTime}
			run.Config.Spec.Windows = test.windows
			run.resolveWait()
			if problem := strings.Join(run.Problems, "; "); run.Wait != test.wait || problem != test.problem {
				t.Errorf("it waits with %q, problem %q", run.Wait, problem)
			}
			if test.wake == 0 != run.Wake.IsZero() || test.wake != 0 && !run.Wake.Equal(testTime.Add(test.wake)) {
				t.Errorf("it wakes at %s", run.Wake)
			}
		})
	}
}

// TestResolve_EndingIgnoresWindows: the windows of a run that ends are not evaluated, so they cannot be a problem.
func TestResolve_EndingIgnoresWindows(t *testing.T) {
	for _, schedule := range []string{"", "TZ=UTC", "CRON_TZ=UTC", "@every 1h", "soon", "0 0 * * *"} {
		run := &v1alpha1.MutexRunConfig{}
		run.Spec.Windows = []v1alpha1.Window{{Schedule: schedule, TimeZone: "Mars/Olympus"}}
		for _, fault := range Resolve(&Input{Config: run, Ending: true, Now: testTime}).Problems {
			if strings.Contains(fault, "windows") {
				t.Errorf("schedule %q: %s", schedule, fault)
			}
		}
	}
}
