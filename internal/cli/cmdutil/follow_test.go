package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestFollow_Until(t *testing.T) {
	failure := errors.New("boom")
	interrupt := func(cancel context.CancelCauseFunc) { cancel(nil) }
	wait := func(timeout time.Duration) WaitFlags { return WaitFlags{Wait: true, Timeout: timeout} }
	for name, c := range map[string]struct {
		follow Follow
		// end ends the context, or the look fails, at the last look.
		end   func(context.CancelCauseFunc)
		fails error
		// watched reports that nothing changes.
		watched bool
		want    string
		looks   int
	}{
		"done":                     {looks: 3},
		"look fails":               {fails: failure, want: "boom", looks: 2},
		"interrupt while watching": {end: interrupt, looks: 2},
		"interrupt while waiting":  {follow: Follow{WaitFlags: wait(0)}, end: interrupt, want: "interrupted", looks: 2},
		"watch fails permanently":  {end: func(cancel context.CancelCauseFunc) { cancel(failure) }, want: "boom", looks: 2},
		"timeout":                  {follow: Follow{WaitFlags: wait(2500 * time.Millisecond)}, want: "timed out after 2.5s", looks: 3},
		"interval": {
			follow: Follow{WaitFlags: wait(time.Second), Interval: 400 * time.Millisecond}, want: "timed out after 1s", looks: 3,
		},
		"no change before the timeout": {follow: Follow{WaitFlags: wait(time.Minute)}, watched: true, want: "timed out after 1m0s", looks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.watched {
					c.follow.Changed = make(chan struct{})
				}
				looks := 0
				err := c.follow.Until(ctx, func(context.Context) (bool, error) {
					if looks++; looks == c.looks && c.end != nil {
						c.end(cancel)
						return false, errors.New("the context has ended")
					}
					if looks == c.looks && c.fails != nil {
						return false, c.fails
					}
					return looks == c.looks && c.want == "", nil
				})
				if fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if looks != c.looks {
					t.Errorf("%d looks, want %d", looks, c.looks)
				}
				if stopped := IsStopped(err); stopped != (strings.HasPrefix(c.want, "timed out") || c.want == "interrupted") {
					t.Errorf("stopped is %t", stopped)
				}
			})
		})
	}
}

func TestFollow_PrintsWarnings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		warnings := make(chan error, 1)
		var printed []string
		looks := 0
		follow := Follow{Warnings: warnings, Warn: func(format string, args ...any) error {
			printed = append(printed, fmt.Sprintf(format, args...))
			return nil
		}}
		err := follow.Until(t.Context(), func(context.Context) (bool, error) {
			looks++
			if looks == 1 {
				warnings <- errors.New("connection refused")
			}
			return looks == 2, nil
		})
		if err != nil || !slices.Equal(printed, []string{"connection refused; trying again"}) {
			t.Errorf("%q, %v", printed, err)
		}
	})
}

func TestOutputFlags_FollowPrintsOnlyChanges(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	output := &OutputFlags{}
	output.AddFlags(&cobra.Command{})
	looks := []struct{ text, document string }{{"a 1s\n", "a"}, {"a 2s\n", "a"}, {"b 3s\n", "b"}, {"a 4s\n", "a"}}
	synctest.Test(t, func(t *testing.T) {
		next := 0
		err := output.Follow(t.Context(), NewOptions(streams), &Follow{}, func(context.Context) (any, func(*Text), bool, error) {
			look := looks[next]
			next++
			return look.document, func(text *Text) { text.WriteString(look.text) }, next == len(looks), nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if want := "a 1s\n\nb 3s\n\na 4s\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
