package harness

import "testing"

// TestAllOnly skips a test under go test -short, which is what make test passes: make test-all runs it. The reason says why make test does without
// it.
func TestAllOnly(t testing.TB, reason string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make test-all runs it: " + reason)
	}
}

// SmokeOf returns the first workload of a lane under go test -short, and all of them otherwise.
func SmokeOf[T any](t testing.TB, workloads []T) []T {
	t.Helper()
	if testing.Short() {
		t.Logf("make test-all runs the other %d workloads", len(workloads)-1)
		return workloads[:1]
	}
	return workloads
}
