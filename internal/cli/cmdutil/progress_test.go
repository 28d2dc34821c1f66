package cmdutil

import (
	"strings"
	"testing"
	"time"
)

// signals is a terminal that reports each write.
type signals struct {
	text  strings.Builder
	wrote chan struct{}
}

func (s *signals) Write(text []byte) (int, error) {
	defer func() { s.wrote <- struct{}{} }()
	return s.text.Write(text)
}

func TestSayLater(t *testing.T) {
	terminal := &signals{wrote: make(chan struct{}, 2)}
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
