package vcenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestStable(t *testing.T) {
	for text, want := range map[string]string{
		"read tcp 10.0.0.1:54321->10.0.0.2:443: connection reset by peer":         "read tcp 10.0.0.2:443: connection reset by peer",
		`Post "https://vc/sdk": read tcp [fd00::1]:4->[fd00::2]:443: i/o timeout`: `Post "https://vc/sdk": read tcp [fd00::2]:443: i/o timeout`,
		"certificate has expired: current time 2026-11-24T05:00:01Z is after 2026-11-23T05:00:00Z": "certificate has expired: " +
			"is after 2026-11-23T05:00:00Z",
		"dial tcp 10.0.0.2:443: connect: connection refused": "dial tcp 10.0.0.2:443: connect: connection refused",
	} {
		err := stable(fmt.Errorf("%s: %w", text, context.DeadlineExceeded))
		if got := strings.TrimSuffix(err.Error(), ": context deadline exceeded"); got != want || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
