package simulation

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// option is one thing that the scheduler can do next.
type option struct {
	weight int
	name   string
	act    func()
}

// String is the option's name.
func (o option) String() string { return o.name }

// step does one thing of all that can be done, and waits until nothing moves any more. It reports whether there was anything.
func (w *world) step() bool {
	if w.due() {
		synctest.Wait()
		return true
	}
	options := w.options()
	chosen, found := weighted(w, options, func(o option) int { return o.weight })
	if !found {
		return false
	}
	if w.trace {
		w.history.note("step %d: %s of %v", w.steps, chosen.name, options)
	}
	chosen.act()
	w.steps++
	synctest.Wait()
	return true
}

// options lists what can be done.
func (w *world) options() []option {
	p := w.process
	if p == nil {
		return nil
	}
	var options []option
	for _, c := range p.gates.waiting() {
		options = append(options, option{8, c.name(), func() { w.answer(c) }})
	}
	for _, k := range w.kinds() {
		in := p.informers[k]
		if in.behind() > 0 {
			options = append(options, option{w.pace(k, 0), "show " + k.name, func() { w.deliver(in) }})
		}
		for _, l := range in.listeners {
			if len(l.pending) > 0 {
				options = append(options, option{w.pace(k, 1), l.controller + " gets " + k.name, func() { w.notify(k, l) }})
			}
		}
	}
	if len(options) > 0 && !w.calm {
		options = append(options, option{2, "time", func() { w.sleep(w.upTo(500 * time.Millisecond)) }})
		if w.chance(200) {
			options = append(options, option{2, "time", func() { w.sleep(w.upTo(40 * time.Second)) }})
		}
	}
	return options
}

// pace is how likely events of a kind are to go on, to the store or from there to the handlers. It differs between seeds.
func (w *world) pace(k *kind, stage int) int {
	if w.calm {
		return 8
	}
	return w.paces[k][stage]
}

// deliver shows events to a store.
func (w *world) deliver(in *informer) {
	if !w.calm && w.chance(60) {
		in.relist()
		w.history.note("the watch of %s begins anew", in.kind.name)
		return
	}
	for range 1 + w.random.IntN(3) {
		if in.behind() > 0 {
			in.next()
		}
	}
}

// notify calls a handler with events that the store shows.
func (w *world) notify(k *kind, l *listener) {
	for range 1 + w.random.IntN(3) {
		if len(l.pending) == 0 {
			return
		}
		event := l.pending[0]
		l.pending = l.pending[1:]
		l.initial.Add(-1)
		if w.config.dropEvent == nil || !w.config.dropEvent(l.controller, k) {
			event(l.handler)
			synctest.Wait()
		}
	}
}

// answer lets a call through, as it is or with a fault.
func (w *world) answer(c *call) {
	p := w.process
	api := !strings.HasPrefix(c.what, "instance ")
	if c.mutates {
		w.history.writes++
	}
	switch fate := w.fate(c, api); fate {
	case "crash before", "crash after":
		p.gates.forget(c)
		if fate == "crash after" {
			_ = c.act() // the answer is lost
		}
		c.done <- errDead
		w.crash(fate + " " + c.name())
		w.after(w.upTo(40*time.Second), w.start)
		return
	case "conflict":
		w.history.note("%-12s conflict: %s", c.controller, c.name())
		p.gates.release(c, apierrors.NewConflict(schema.GroupResource{}, c.item, fmt.Errorf("simulated")))
		return
	case "before":
		w.history.note("%-12s fails: %s", c.controller, c.name())
		p.gates.release(c, apierrors.NewInternalError(fmt.Errorf("simulated: it was not done")))
		return
	case "after":
		_ = c.act() // the answer is lost
		w.history.note("%-12s gets no answer: %s", c.controller, c.name())
		p.gates.release(c, apierrors.NewTimeoutError("simulated: it may have been done", 1))
		return
	}
	w.fulfil(c)
}

// fulfil does what a call asks for.
func (w *world) fulfil(c *call) {
	if c.act == nil {
		w.process.gates.release(c, nil)
		return
	}
	err := c.act()
	switch {
	case err == nil && c.answer != nil:
		c.answer()
	case err != nil && c.mutates:
		w.history.note("%-12s %s: %v", c.controller, c.name(), err)
	}
	w.process.gates.release(c, err)
}

// fate decides what becomes of a call.
func (w *world) fate(c *call, api bool) string {
	n := w.random.IntN(1000)
	switch {
	case w.calm, c.act == nil && n > 0:
		return ""
	case n < 4:
		return "crash before"
	case n < 8 && c.mutates:
		return "crash after"
	case !api:
		return ""
	}
	return c.refusal(n)
}

// refusal decides what the API server does wrong, by a number below 1000.
func (c *call) refusal(n int) string {
	switch {
	case n < 50 && c.mayConflict():
		return "conflict"
	case n < 80:
		return "before"
	case n < 110 && c.mutates:
		return "after"
	}
	return ""
}

// mayConflict reports whether a call can fail with a simulated conflict. The deletion of a Node names a UID alone, and so meets one
// only if it is another one's.
func (c *call) mayConflict() bool {
	return c.mutates && !strings.HasPrefix(c.what, "create") && !strings.HasPrefix(c.what, "delete Node")
}

// sleep lets time pass, until a call comes to a gate or something is due.
func (w *world) sleep(longest time.Duration) {
	if len(w.timers) > 0 {
		longest = min(longest, time.Until(w.timers[0].at))
	}
	select {
	case <-w.wake: // a call that has come since, and that is known
	default:
	}
	alarm := time.NewTimer(max(longest, 0))
	defer alarm.Stop()
	select {
	case <-w.wake:
	case <-alarm.C:
	}
}

// runUntil goes on until a time, or until a function that is asked whenever nothing moves says that it is enough.
func (w *world) runUntil(end time.Time, enough func() bool) bool {
	for time.Now().Before(end) && w.broken() == "" {
		if w.step() {
			continue
		}
		if enough != nil && enough() {
			return true
		}
		if w.step() {
			continue // to ask has changed something
		}
		w.sleep(time.Until(end))
		synctest.Wait()
	}
	return false
}
