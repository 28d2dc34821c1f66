// Package eventually waits for what must happen: it is the one loop of the tests, of their helpers and of the sandbox that looks again and again.
package eventually

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// finalError ends a wait.
type finalError struct{ error }

// Unwrap returns the error itself.
func (e finalError) Unwrap() error { return e.error }

// Final marks an error of a condition after which it is not looked at again.
func Final(err error) error { return finalError{err} }

// Until calls a condition until it returns no error, at most for a limit, and returns why it ended together with the last error of the condition. A
// limit of zero is as long as the context lasts.
func Until(ctx context.Context, limit, every time.Duration, condition func() error) error {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	var last error
	var final finalError
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		err := condition()
		if last == nil || err == nil || ctx.Err() == nil {
			last = err // after the end it may only say that the context has ended
		}
		return err == nil || errors.As(err, &final), nil
	})
	switch {
	case final.error != nil:
		return final.error
	case err != nil:
		return fmt.Errorf("%w: %w", err, last)
	}
	return nil
}
