package status

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/kubectl/pkg/util/term"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// newOptions returns options whose output can be read, and their clock.
func newOptions(format string) (*options, *bytes.Buffer, *time.Time) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	o := &options{Options: cmdutil.NewOptions(streams), output: cmdutil.OutputFlags{Tables: true}}
	now := time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)
	o.Now = func() time.Time { return now }
	o.output.AddFlags(&cobra.Command{})
	o.output.Format = format
	return o, out, &now
}

func statusOf(synced, pending int) *view.StatusList {
	workers := view.MachineSetStatus{MachineSet: view.MachineSet{Name: "workers", Namespace: "ns", Generation: 1}}
	workers.Summary = view.Summary{Machines: synced + pending, Nodes: synced + pending, Synced: synced, Pending: pending, ToWrite: pending}
	unchanged := view.MachineSetStatus{MachineSet: view.MachineSet{Name: "still", Namespace: "ns"}}
	return &view.StatusList{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "MachineSetStatusList"}, Items: []view.MachineSetStatus{workers, unchanged},
	}
}

// showAll shows statuses one after the other, two seconds apart.
func showAll(t *testing.T, o *options, now *time.Time, lists ...*view.StatusList) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		next := 0
		err := o.show(t.Context(), func(context.Context) (*view.StatusList, bool, error) {
			next++
			*now = now.Add(2 * time.Second)
			return lists[next-1], next == len(lists), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// compare compares text with a file of testdata.
func compare(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-want +got):\n%s", name, cmp.Diff(string(want), got))
	}
}

func TestShow_PrintsChanges(t *testing.T) {
	o, out, now := newOptions("")
	showAll(t, o, now, statusOf(0, 4), statusOf(0, 4), statusOf(3, 1), statusOf(4, 0))
	compare(t, "watch.txt", out.String())
}

func TestShow_DocumentsWithAndWithoutWait(t *testing.T) {
	for _, wait := range []bool{false, true} {
		o, out, now := newOptions("json")
		o.Wait = wait
		showAll(t, o, now, statusOf(0, 1), statusOf(1, 0))
		want := 2
		if wait {
			want = 1
		}
		if got := strings.Count(out.String(), `"items"`); got != want {
			t.Errorf("wait %t: %d documents", wait, got)
		}
	}
}

func TestScreen_DrawsInPlace(t *testing.T) {
	o, out, now := newOptions("")
	terminal := &screen{options: o, terminal: term.TTY{Out: out}}
	for i, list := range []*view.StatusList{statusOf(0, 4), statusOf(2, 2), statusOf(4, 0)} {
		if err := terminal.show(list, i == 2); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(2 * time.Second)
	}
	compare(t, "terminal.txt", strings.NewReplacer("\x1b", "ESC", "\r", "CR").Replace(out.String()))
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

func TestUnfinishedText(t *testing.T) {
	if got := unfinishedText(statusOf(1, 2)); !strings.HasPrefix(got, "MachineSet workers has 2 of 3 Machines pending; ") {
		t.Error(got)
	}
	if got := unfinishedText(&view.StatusList{}); got != "the cluster has not answered yet" {
		t.Error(got)
	}
}
