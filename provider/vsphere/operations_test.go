package vsphere

import (
	"context"
	"testing"

	"github.com/drover-io/drover/provider"
)

// TestOperations_Stop: the deletion of a Machine stops its creation before the next stage, and not itself.
func TestOperations_Stop(t *testing.T) {
	for _, c := range []struct {
		purpose purpose
		stops   bool
	}{{creation, true}, {deletion, false}} {
		t.Run(string(c.purpose), func(t *testing.T) {
			work, begun, stopped, next := newOperations(func(string) {}), make(chan struct{}), make(chan struct{}), make(chan error, 1)
			work.begin(t.Context())
			err := work.do("uid", c.purpose, "first", func(_ context.Context, op *operation) error {
				close(begun)
				<-stopped
				next <- op.next("second")
				return nil
			})
			if _, waits := provider.AsRequeueAfter(err); !waits {
				t.Fatal(err)
			}
			<-begun
			if _, waits := provider.AsRequeueAfter(work.stopCreation("uid")); !waits {
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
