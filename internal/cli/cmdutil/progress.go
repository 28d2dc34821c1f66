package cmdutil

import (
	"context"
	"fmt"
	"io"
	"time"

	"k8s.io/kubectl/pkg/util/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// patience is how long a command reads before it says so.
const patience = time.Second

// Objects is Objects for the namespace of the flags. On a terminal it says what it does while that takes long.
func (o *Options) Objects(ctx context.Context, c client.Reader) (plan.Objects, error) {
	out := Raw(o.ErrOut)
	if !(term.TTY{Out: out}).IsTerminalOut() {
		return Objects(ctx, c, o.Namespace())
	}
	defer sayLater(out, "Reading Machines and Nodes ...", patience)()
	return Objects(ctx, c, o.Namespace())
}

// sayLater writes a text to a terminal after a while. The function that it returns removes the text, or has it not written.
func sayLater(terminal io.Writer, text string, after time.Duration) (end func()) {
	said := make(chan struct{})
	timer := time.AfterFunc(after, func() {
		defer close(said)
		_, _ = io.WriteString(terminal, text)
	})
	return func() {
		if timer.Stop() {
			return
		}
		<-said
		_, _ = fmt.Fprint(terminal, "\r\x1b[K")
	}
}
