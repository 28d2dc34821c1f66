package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
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

// Follow calls look every second until that reports that it is done or fails. After the first look, a failure that may pass is a warning. Without
// --wait an interrupt is the normal end.
func (o *Options) Follow(ctx context.Context, wait WaitFlags, look func(context.Context) (done bool, err error)) error {
	within, cancel := ctx, context.CancelFunc(func() {})
	if wait.Timeout > 0 {
		within, cancel = context.WithTimeout(ctx, wait.Timeout)
	}
	defer cancel()
	for looked := false; within.Err() == nil; looked = true {
		begun := time.Now()
		done, err := look(within)
		if within.Err() != nil && !done {
			break
		}
		if looked && mayPass(err) {
			err = o.Warn("%v; trying again", err)
		}
		if done || err != nil {
			return err
		}
		// A look at a large cluster takes seconds, and several people may look: each of them asks for a fifth of the time at most.
		pause(within, max(time.Second, 4*time.Since(begun)))
	}
	switch {
	case ctx.Err() == nil:
		return NeedsDrover(stoppedError{fmt.Errorf("timed out after %s", wait.Timeout)})
	case wait.Wait:
		return stoppedError{errors.New("interrupted")}
	}
	return nil
}

// pause returns after some time, or when the context ends.
func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// mayPass reports whether a request may succeed when it is made again, such as when the API server restarts.
func mayPass(err error) bool {
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsTimeout(err) || utilnet.IsProbableEOF(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsResourceExpired(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err)
}

// stoppedError ends waiting before it is done.
type stoppedError struct{ error }

// IsStopped reports whether waiting ended before it was done: by the timeout, or by an interrupt.
func IsStopped(err error) bool { return errors.As(err, &stoppedError{}) }
