package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/term"
)

// screenCommand is a status command whose output can be read; the clock is moved by hand.
func screenCommand(format string) (*statusCommand, *bytes.Buffer, *time.Time) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := newOptions(streams)
	now := testTime
	o.now = func() time.Time { return now }
	s := &statusCommand{options: o}
	s.output.addFlags(&cobra.Command{})
	s.output.format = format
	return s, out, &now
}

func progressOf(synced, pending int) PoolStatusList {
	pool := PoolStatus{Name: "workers", Namespace: "ns", Generation: 1}
	pool.Summary = Summary{Machines: synced + pending, Nodes: synced + pending, Synced: synced, Pending: pending, ToWrite: pending}
	still := PoolStatus{Name: "still", Namespace: "ns"}
	return PoolStatusList{TypeMeta: TypeMeta{APIVersion, "PoolStatusList"}, Items: []PoolStatus{pool, still}}
}

func showAll(t *testing.T, s screen, now *time.Time, lists ...PoolStatusList) {
	t.Helper()
	for i, list := range lists {
		if err := s.show(list, i == len(lists)-1); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(2 * time.Second)
	}
}

func TestLogScreen(t *testing.T) {
	command, out, now := screenCommand("")
	showAll(t, &logScreen{command: command}, now, progressOf(0, 4), progressOf(0, 4), progressOf(3, 1), progressOf(4, 0))
	golden(t, "watch.txt", out.String())
}

func TestDocumentScreen(t *testing.T) {
	for _, wait := range []bool{false, true} {
		command, out, now := screenCommand("json")
		command.wait = wait
		showAll(t, &documentScreen{command: command}, now, progressOf(0, 1), progressOf(1, 0))
		want := 2
		if wait {
			want = 1
		}
		if got := strings.Count(out.String(), `"items"`); got != want {
			t.Errorf("wait %t: %d documents", wait, got)
		}
	}
}

func TestTerminalScreen(t *testing.T) {
	command, out, now := screenCommand("")
	screen := &terminalScreen{command: command, terminal: term.TTY{Out: out}}
	showAll(t, screen, now, progressOf(0, 4), progressOf(2, 2), progressOf(4, 0))
	golden(t, "terminal.txt", strings.NewReplacer("\x1b", "ESC", "\r", "CR").Replace(out.String()))
}

func TestProgressText(t *testing.T) {
	for _, c := range []struct {
		machines, left, todo int
		since                time.Duration
		want                 string
	}{
		{0, 0, 0, 0, "[##############################] 0/0 done"},
		{10, 10, 10, 0, "[------------------------------] 0/10 done"},
		{10, 5, 10, 0, "[###############---------------] 5/10 done"},
		{10, 5, 10, 5 * time.Second, "[###############---------------] 5/10 done, 1/s, 5s left"},
		{10, 0, 10, 5 * time.Second, "[##############################] 10/10 done"},
	} {
		if got := progressText(c.machines, c.left, c.todo, c.since); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

func TestLacking(t *testing.T) {
	if got := progressOf(1, 2).lacking(); !strings.HasPrefix(got, "pool workers has 2 of 3 Machines pending; ") {
		t.Error(got)
	}
	if got := (PoolStatusList{}).lacking(); got != "the cluster has not answered yet" {
		t.Error(got)
	}
}
