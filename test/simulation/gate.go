package simulation

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
)

// errDead is what the requests of a process get that has ended.
var errDead = errors.New("the process has ended")

// call is a request of a controller that waits until the scheduler lets it through.
type call struct {
	// controller is who asks, pass the reconciliation, item what it has read first, what the request itself, and object the key of what is reconciled.
	// Together they identify a call, whatever the order of arrival.
	controller, pass, item, what, object string
	// mutates is whether it changes something, on the API server or at the provider.
	mutates bool
	// act does what is asked, on the scheduler's goroutine; nil for a mere stop.
	act func() error
	// answer puts what act has found where the caller looks for it; nil for nothing. It is left out when the answer is lost.
	answer func()
	done   chan error
	// full is who asks for what, in words.
	full string
}

func (c *call) name() string { return c.full }

// gates hold the calls of one process.
type gates struct {
	mu   sync.Mutex
	dead bool
	// held are the calls that wait.
	held []*call
	// wake gets a value for each that comes.
	wake chan struct{}
}

// pass holds a call until it is let through.
func (g *gates) pass(ctx context.Context, c *call) error {
	c.object = reconciledObject(ctx)
	c.done, c.full = make(chan error, 1), c.controller+" "+c.item+" "+c.what
	g.mu.Lock()
	if g.dead {
		g.mu.Unlock()
		return errDead
	}
	g.held = append(g.held, c)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
	}
	g.forget(c)
	return ctx.Err()
}

// forget takes a call from the gate.
func (g *gates) forget(c *call) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.held = slices.DeleteFunc(g.held, func(other *call) bool { return other == c })
}

// waiting lists the calls that wait, in an order that does not depend on when they arrived.
func (g *gates) waiting() []*call {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.held, func(a, b *call) int {
		return cmp.Or(cmp.Compare(a.name(), b.name()), cmp.Compare(a.object, b.object))
	})
	return slices.Clone(g.held)
}

// release lets a call through, with an error or with none.
func (g *gates) release(c *call, err error) {
	g.forget(c)
	c.done <- err
}

// close ends the process: nothing is let through any more. It returns what was waiting.
func (g *gates) close() []*call {
	held := g.waiting()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead, g.held = true, nil
	return held
}
