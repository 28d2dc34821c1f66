package vsphere

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/test/vcenter"
)

// attempts calls Create as Drover does over two minutes, after the operation has failed for the first time, and returns how many texts its errors
// had one after another, which are the writes of a condition, and how many calls the vCenter got.
func (f *fixture) attempts(machine *machinev1beta1.Machine, clock *testingclock.FakeClock, cause string) (writes, calls int) {
	f.Helper()
	last := ""
	create := func() (after time.Duration) {
		former := f.actuator.work.running[machine.UID]
		_, err := f.actuator.Create(f.Context(), machine)
		if err == nil {
			f.Fatal("the virtual machine is there")
		}
		if text := err.Error(); text != last {
			last = text
			writes++
		}
		if after, _ = provider.AsRequeueAfter(err); former == f.actuator.work.running[machine.UID] {
			return max(after, 50*time.Millisecond)
		}
		// The end of an operation that has begun wakes the Machine.
		eventually(f.T, "the operation has ended", func() error {
			if f.actuator.work.isRunning(machine.UID) {
				return errors.New("it runs")
			}
			return nil
		})
		return 0
	}
	for !strings.Contains(last, cause) {
		create()
	}
	before := f.calls()
	for end := clock.Now().Add(2 * time.Minute); clock.Now().Before(end); {
		clock.Step(create())
		if !strings.Contains(last, cause) {
			f.Errorf("the error is %s, want %s", last, cause)
		}
	}
	made := f.calls()
	maps.DeleteFunc(made, func(method string, _ float64) bool { return method == "WaitForUpdatesEx" })
	for method, count := range made {
		calls += int(count - before[method])
	}
	return writes, calls
}

// TestCreate_Backoff: what fails in the background, for as long as its cause lasts, is tried less and less often, and the error stays the cause.
func TestCreate_Backoff(t *testing.T) {
	t.Parallel()
	f, clock := newFixture(t), testingclock.NewFakeClock(time.Now())
	f.actuator.work.clock, f.actuator.work.retry = clock, firstRetry
	f.behave(vcenter.Behavior{Clones: map[string]vcenter.CloneBehavior{"full": {Fault: "NoDiskSpace"}}})
	const missing = "urn:vmomi:InventoryServiceTag:00000000-0000-4000-8000-000000000000:GLOBAL"
	for name, c := range map[string]struct {
		cause  string
		change func(*machinev1beta1.VSphereMachineProviderSpec)
	}{
		"group": {"could not update VM Group membership", func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Workspace.VMGroup = "none" }},
		"tag":   {"attaching the tag " + missing, func(s *machinev1beta1.VSphereMachineProviderSpec) { s.TagIDs = []string{missing} }},
		"full":  {"NoDiskSpace", func(*machinev1beta1.VSphereMachineProviderSpec) {}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := f.site.ProviderSpec()
			c.change(spec)
			machine := f.machine(name, spec)
			writes, calls := f.attempts(machine, clock, c.cause)
			t.Logf("%d writes, %d calls", writes, calls)
			if writes > 3 || calls > 10 {
				t.Errorf("%d writes and %d calls in two minutes", writes, calls)
			}
			// A Machine that has been corrected does not wait.
			machine.Generation++
			machine.Spec.ProviderSpec = f.machine(name, f.site.ProviderSpec()).Spec.ProviderSpec
			f.behave(vcenter.Behavior{})
			f.create(machine)
			f.remove(machine)
			f.behave(vcenter.Behavior{Clones: map[string]vcenter.CloneBehavior{"full": {Fault: "NoDiskSpace"}}})
		})
	}
}
