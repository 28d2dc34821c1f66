package vsphere

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
)

// TestOperations_Stop: the deletion of a Machine stops its creation before the next stage, and not itself.
func TestOperations_Stop(t *testing.T) {
	for _, c := range []struct {
		purpose purpose
		stops   bool
	}{{creation, true}, {deletion, false}} {
		t.Run(string(c.purpose), func(t *testing.T) {
			work, begun, stopped, next := newOperations(func(string) {}, clock.RealClock{}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
			work.begin(t.Context())
			machine := conformance.NewMachine("worker-1")
			err := work.do(machine, c.purpose, "first", func(_ context.Context, op *operation) error {
				close(begun)
				<-stopped
				next <- op.next("second")
				return nil
			})
			if _, waits := provider.AsRequeueAfter(err); !waits {
				t.Fatal(err)
			}
			<-begun
			if _, waits := provider.AsRequeueAfter(work.stopCreation(machine.UID)); !waits {
				t.Error("the operation that is running is not waited for")
			}
			close(stopped)
			if err := <-next; (err != nil) != c.stops {
				t.Errorf("the next stage: %v", err)
			}
			work.wait()
		})
	}
}

// TestMachineNames_Restored: the virtual machine of a Machine that has been restored from a backup has the UID that the Machine had before.
func TestMachineNames_Restored(t *testing.T) {
	names, restored := newMachineNames(), conformance.NewMachine("worker-1")
	restored.UID = "B"
	names.add(restored)
	names.setSeen(restored, nil, "A")
	if !names.has("a") || !names.has("b") || names.has("") || names.has("c") {
		t.Errorf("%+v", names.names)
	}
	var woken []string
	names.notify(func(name types.NamespacedName) { woken = append(woken, name.Name) })
	names.changed("a")
	names.changed("")
	names.remove(restored)
	names.changed("a")
	names.changed("")
	if len(woken) != 2 || len(names.names)+len(names.aliases)+len(names.seen) > 0 {
		t.Errorf("%q are woken, and %+v is left", woken, names.names)
	}
}
