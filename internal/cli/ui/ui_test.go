package ui

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// TestCommand: the command prints an address on the loopback interface with a token that is another one each time, and ends with its context.
func TestCommand(t *testing.T) {
	tokens := map[string]bool{}
	for range 2 {
		out, in := io.Pipe()
		shared := cmdutil.NewOptions(genericiooptions.IOStreams{In: nil, Out: in, ErrOut: io.Discard})
		shared.Connect = func() (client.WithWatch, error) { return newFakeClient(nil), nil }
		command := NewCommand(shared)
		command.SetArgs(nil)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- command.ExecuteContext(ctx) }()
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`^Open (http://127\.0\.0\.1:\d+/)#token=([A-Z2-7]{26})\n$`).FindStringSubmatch(line)
		if found == nil {
			t.Fatalf("the command prints %q", line)
		}
		tokens[found[2]] = true
		if status := getStatus(t, found[1]+"api/fleet", found[2]); status != http.StatusOK {
			t.Errorf("status %d with the token", status)
		}
		if status := getStatus(t, found[1]+"api/fleet", "other"); status != http.StatusUnauthorized {
			t.Errorf("status %d with another token", status)
		}
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("the command does not end")
		}
	}
	if len(tokens) != 2 {
		t.Error("two commands have the same token")
	}
}

func getStatus(t *testing.T, address, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	return answer.StatusCode
}
