package cluster

import (
	"os"
	"testing"
)

// A process whose first thread has ended before the others looks dead in a list of processes and still has its ports.
func TestProcess_EndsWithItsLastThread(t *testing.T) {
	for _, c := range []struct {
		stat  procStat
		ended bool
	}{
		{procStat{state: "S", threads: 1}, false}, {procStat{state: "R", threads: 9}, false}, {procStat{state: "Z", threads: 9}, false},
		{procStat{state: "Z", threads: 1}, true}, {procStat{state: "X"}, true},
	} {
		if got := c.stat.ended(); got != c.ended {
			t.Errorf("%+v: ended %v", c.stat, got)
		}
	}
	own, err := readStat(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if entries, err := os.ReadDir("/proc/self/task"); err != nil || own.threads < 1 || own.threads > 2*len(entries) || own.ended() {
		t.Errorf("%d threads, there are about %d (%v)", own.threads, len(entries), err)
	}
}
