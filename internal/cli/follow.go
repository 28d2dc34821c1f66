package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/kubectl/pkg/util/term"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// How often at most the table is drawn anew, however fast things change.
const (
	redrawTerminal = 200 * time.Millisecond
	redrawLog      = time.Second
)

// screen shows one status after the other.
type screen interface {
	// show draws a status; last tells that no other follows.
	show(list PoolStatusList, last bool) error
	// pause is how long a status stands at least.
	pause() time.Duration
}

// follow shows the status as it changes: until ctrl-c, or with --wait until nothing is pending.
func (s *statusCommand) follow(ctx context.Context, c client.WithWatch, names []string) error {
	// An informer tries again for ever; one plain request tells first whether the cluster answers at all.
	if _, err := list[*machinev1beta1.MachineSet](ctx, c, machineSets, s.namespace()); err != nil {
		return err
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if s.timeout > 0 {
		within, cancel = context.WithTimeout(ctx, s.timeout)
	}
	defer cancel()
	objects, err := watchObjects(within, c, s.namespace())
	if err != nil {
		return s.ended(ctx, PoolStatusList{}, err)
	}
	screen := s.screen()
	for {
		begun := time.Now()
		status, err := s.look(objects.objects(), names)
		if err != nil {
			return err
		}
		done := s.wait && status.unfinished() == 0
		if err := screen.show(status, done); err != nil || done {
			return err
		}
		// In a large cluster some Node changes all the time; looking must not keep a processor busy.
		pause := max(screen.pause(), 4*time.Since(begun))
		if err := s.awaitChange(within, objects, pause); err != nil {
			return s.ended(ctx, status, err)
		}
	}
}

// awaitChange returns when something has changed and the pause is over.
func (s *statusCommand) awaitChange(ctx context.Context, objects *live, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	waitingFor := objects.changed
	due := timer.C
	for waitingFor != nil || due != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-objects.failed:
			return err
		case err := <-objects.trouble:
			if err := printf(s.ErrOut, "Warning: %v; trying again\n", err); err != nil {
				return err
			}
		case <-waitingFor:
			waitingFor = nil
		case <-due:
			due = nil
		}
	}
	return nil
}

// ended says why following stopped before the end. Without --wait, ctrl-c is the end.
func (s *statusCommand) ended(ctx context.Context, last PoolStatusList, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return fmt.Errorf("timed out after %s: %s", s.timeout, last.lacking())
	case ctx.Err() != nil && s.wait:
		return fmt.Errorf("interrupted: %s", last.lacking())
	case ctx.Err() != nil:
		return nil //nolint:nilerr // who stops watching has seen enough
	}
	return err
}

// lacking says which pools are not done.
func (l PoolStatusList) lacking() string {
	var parts []string
	for _, pool := range l.Items {
		if number := pool.unfinished(); number > 0 {
			parts = append(parts, fmt.Sprintf("pool %s has %d of %s pending", pool.title(), number, count(pool.Summary.Machines, "Machine")))
		}
	}
	if len(parts) == 0 {
		return "the cluster has not answered yet"
	}
	return strings.Join(parts, ", ") + "; kubectl drover plan shows what is missing"
}

func (s *statusCommand) screen() screen {
	terminal := term.TTY{Out: raw(s.Out)}
	switch {
	case !s.output.table():
		return &documentScreen{command: s}
	case terminal.IsTerminalOut():
		return &terminalScreen{command: s, terminal: terminal, begun: s.now()}
	}
	return &logScreen{command: s}
}
