package e2e

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/cli/view"
)

func TestStatusWait(t *testing.T) {
	p := newMachineSet(t, 3, map[string]string{"tier": "gold"})
	waiting := p.start("status", "--wait")
	waiting.await(t, "pending", func(text string) bool { return strings.Contains(text, p.name) })
	p.reconcile(1)
	waiting.await(t, "progress", func(text string) bool { return strings.Count(text, p.name) >= 2 })
	select {
	case code := <-waiting.done:
		t.Fatalf("ended with %d before the MachineSet was done:\n%s", code, waiting)
	default:
	}
	p.reconcile(-1)
	if code := waiting.end(t); code != 0 {
		t.Errorf("code %d:\n%s", code, waiting)
	}
	lines := strings.Split(strings.TrimSpace(waiting.String()), "\n")
	if !strings.HasPrefix(lines[0], "MACHINESET") || !strings.HasPrefix(lines[len(lines)-1], p.name) {
		t.Errorf("unexpected text:\n%s", waiting)
	}
	got := p.drover("status", "-o", "json", "--wait")
	status := decode[view.StatusList](t, got.out)
	if got.code != 0 || len(status.Items) != 1 || status.Items[0].Summary.Synced != 3 {
		t.Errorf("%+v", got)
	}
}

func TestStatusTimeout(t *testing.T) {
	p := newMachineSet(t, 2, map[string]string{"tier": "gold"})
	got := p.drover("status", "--wait", "--timeout", "5s")
	if got.code != 1 || !strings.Contains(got.errors, "timed out after 5s: MachineSet "+p.name+" has 2 of 2 Machines pending") {
		t.Errorf("%+v", got)
	}
}

func TestStatusWatchEndsWithInterrupt(t *testing.T) {
	p := newMachineSet(t, 1, nil)
	watching := p.start("status", "--watch")
	watching.await(t, "the first table", func(text string) bool { return strings.Contains(text, p.name) })
	p.declare(map[string]string{"tier": "gold"})
	watching.await(t, "the change", func(text string) bool { return strings.Count(text, p.name) == 2 })
	watching.stop()
	if code := watching.end(t); code != 0 {
		t.Errorf("code %d:\n%s", code, watching)
	}
}
