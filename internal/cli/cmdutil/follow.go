package cmdutil

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// WaitFlags are --wait and --timeout. Until says what a command waits for.
type WaitFlags struct {
	Wait    bool
	Timeout time.Duration
	Until   string
}

// AddFlags adds the flags to a command.
func (w *WaitFlags) AddFlags(command *cobra.Command) {
	command.Flags().BoolVar(&w.Wait, "wait", false, "If true, wait until "+w.Until)
	command.Flags().DurationVar(&w.Timeout, "timeout", 0, "The length of time to --wait before giving up; zero means to wait forever")
}

// Validate checks the flags.
func (w *WaitFlags) Validate() error {
	switch {
	case w.Timeout < 0:
		return UsageError("--timeout %s: a time to wait cannot be negative", w.Timeout)
	case w.Timeout > 0 && !w.Wait:
		return UsageError("--timeout requires --wait")
	}
	return nil
}

// Follow observes something until it is done.
type Follow struct {
	WaitFlags
	// Interval is the least time between two looks; zero is a second.
	Interval time.Duration
	// Changed has a value when it is worth looking again; nil if nothing does.
	Changed <-chan struct{}
	// Warnings are failures that may pass, which Warn prints.
	Warnings <-chan error
	Warn     func(format string, args ...any) error
}

// Until calls look until that reports that it is done or fails. Without --wait an interrupt is the normal end.
func (f *Follow) Until(ctx context.Context, look func(context.Context) (done bool, err error)) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if f.Timeout > 0 {
		within, cancel = context.WithTimeout(ctx, f.Timeout)
	}
	defer cancel()
	for within.Err() == nil {
		begun := time.Now()
		if done, err := look(within); done || err != nil && within.Err() == nil {
			return err
		}
		// In a large cluster some Node changes all the time; looking must not keep a processor busy.
		if err := f.pause(within, max(cmp.Or(f.Interval, time.Second), 4*time.Since(begun))); err != nil {
			return err
		}
	}
	return f.stopped(ctx, context.Cause(within))
}

// pause returns when the pause is over and something has changed, or when the context ends.
func (f *Follow) pause(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	due, changed := timer.C, f.Changed
	for due != nil || changed != nil {
		select {
		case <-ctx.Done():
			return nil
		case err := <-f.Warnings:
			if err := f.Warn("%v; trying again", err); err != nil {
				return err
			}
		case <-changed:
			changed = nil
		case <-due:
			due = nil
		}
	}
	return nil
}

// stoppedError ends waiting before it is done.
type stoppedError struct{ error }

// IsStopped reports whether waiting ended before it was done: by the timeout, or by an interrupt.
func IsStopped(err error) bool { return errors.As(err, &stoppedError{}) }

// stopped returns the error for following that ended because of the cause, before it was done.
func (f *Follow) stopped(ctx context.Context, cause error) error {
	switch {
	case ctx.Err() == nil && errors.Is(cause, context.DeadlineExceeded):
		return stoppedError{fmt.Errorf("timed out after %s", f.Timeout)}
	case !errors.Is(cause, context.Canceled):
		return cause
	case f.Wait:
		return stoppedError{errors.New("interrupted")}
	}
	return nil
}
