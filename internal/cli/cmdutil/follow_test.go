package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestOptions_Follow(t *testing.T) {
	failure, refused := errors.New("boom"), fmt.Errorf("listing nodes: %w", syscall.ECONNREFUSED)
	wait := func(timeout time.Duration) WaitFlags { return WaitFlags{Wait: true, Timeout: timeout} }
	for name, c := range map[string]struct {
		wait WaitFlags
		// errors are those of the looks; the last look ends the context where interrupt says so.
		errors    []error
		interrupt bool
		want      string
		warned    bool
		looks     int
	}{
		"done":                     {errors: []error{nil, nil, nil}, looks: 3},
		"look fails":               {errors: []error{nil, failure}, want: "boom", looks: 2},
		"nothing answers at first": {errors: []error{refused, nil}, want: "listing nodes: connection refused", looks: 1},
		"nothing answers later":    {errors: []error{nil, refused, nil}, warned: true, looks: 3},
		"interrupt while watching": {errors: []error{nil, failure}, interrupt: true, looks: 2},
		"interrupt while waiting":  {wait: wait(0), errors: []error{nil, failure}, interrupt: true, want: "interrupted", looks: 2},
		"timeout":                  {wait: wait(2500 * time.Millisecond), errors: make([]error, 9), want: "timed out after 2.5s", looks: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				streams, _, _, warnings := genericiooptions.NewTestIOStreams()
				looks := 0
				err := NewOptions(streams).Follow(ctx, c.wait, func(context.Context) (bool, error) {
					looks++
					if last := looks == len(c.errors); last && c.interrupt {
						cancel()
					}
					err := c.errors[looks-1]
					return looks == len(c.errors) && err == nil, err
				})
				if fmt.Sprint(err) != c.want && (err != nil || c.want != "") {
					t.Errorf("error %v, want %q", err, c.want)
				}
				if looks != c.looks || c.warned != strings.Contains(warnings.String(), "Warning: listing nodes: connection refused; trying again\n") {
					t.Errorf("%d looks, want %d; warnings %q", looks, c.looks, warnings)
				}
				if stopped := IsStopped(err); stopped != (strings.HasPrefix(c.want, "timed out") || c.want == "interrupted") {
					t.Errorf("stopped is %t", stopped)
				}
			})
		})
	}
}

func TestOutputFlags_FollowPrintsOnlyChanges(t *testing.T) {
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	output := &OutputFlags{}
	output.AddFlags(&cobra.Command{})
	looks := []struct{ text, document string }{{"a 1s\n", "a"}, {"a 2s\n", "a"}, {"b 3s\n", "b"}, {"a 4s\n", "a"}}
	synctest.Test(t, func(t *testing.T) {
		next := 0
		err := output.Follow(t.Context(), NewOptions(streams), WaitFlags{}, func(context.Context) (any, func(*Text), bool, error) {
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
