package bench

import (
	"context"
	"errors"
	"os/exec"
	"testing"
)

func TestQuiet(t *testing.T) {
	process := exec.CommandContext(t.Context(), "sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	if err := Quiet(t.Context(), process.Process.Pid); err != nil {
		t.Errorf("a process that sleeps is not quiet: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Quiet(ended, process.Process.Pid); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	_ = process.Process.Kill()
	_ = process.Wait()
	if err := Quiet(t.Context(), process.Process.Pid); err == nil {
		t.Error("a process that is gone is quiet")
	}
}
