package cmdutil

import (
	"fmt"
	"io"
	"time"

	"k8s.io/kubectl/pkg/util/term"
)

// patience is how long a command reads before it says so.
const patience = time.Second

// sayReading says on a terminal what a command does that reads for long. The function that it returns ends that.
func (o *Options) sayReading() (end func()) {
	out := Raw(o.ErrOut)
	if !(term.TTY{Out: out}).IsTerminalOut() {
		return func() {}
	}
	return sayLater(out, "Reading Machines and Nodes ...", patience)
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
