package cmdutil

import (
	"strings"
	"testing"
	"time"
)

// told is a terminal that tells when something is written.
type told struct {
	text  strings.Builder
	wrote chan struct{}
}

func (t *told) Write(text []byte) (int, error) {
	defer func() { t.wrote <- struct{}{} }()
	return t.text.Write(text)
}

func TestSayLater(t *testing.T) {
	terminal := &told{wrote: make(chan struct{}, 2)}
	sayLater(terminal, "reading", time.Hour)()
	if terminal.text.Len() > 0 {
		t.Errorf("it said %q at once", terminal.text.String())
	}
	end := sayLater(terminal, "reading", 0)
	<-terminal.wrote
	end()
	if got := terminal.text.String(); got != "reading\r\x1b[K" {
		t.Errorf("it said %q", got)
	}
}
