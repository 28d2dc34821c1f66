package plan

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// model plays a group: MachineSets create and delete Machines as internal/machineset does, and Machines boot, fail and go at any time.
type model struct {
	*rapid.T

	in      *Input
	created int
	// templates has the current template of each MachineSet, broken the templates whose Machines fail.
	templates map[string]int
	broken    map[int]bool
	template  int
	// of has the template of each Machine, and gone how many Machines were replaced under each template before one of it was available.
	of     map[types.UID]int
	proven map[int]bool
	gone   map[int]int
	// steady reports that no old Machine has become NotReady, and, without surge, that all templates work.
	steady bool
}

func newModel(t *rapid.T) *model {
	m := &model{
		T: t, in: newInput(), templates: map[string]int{}, broken: map[int]bool{}, of: map[types.UID]int{}, proven: map[int]bool{}, gone: map[int]int{},
		steady: true,
	}
	r := m.in.Group.Spec.Replacement
	r.MaxSurge = new(intstr.FromInt(rapid.IntRange(0, 3).Draw(t, "maxSurge")))
	r.MaxInFlight = new(intstr.FromInt(rapid.IntRange(1, 3).Draw(t, "maxInFlight")))
	for i := range rapid.IntRange(1, 3).Draw(t, "sets") {
		m.in.Sets = append(m.in.Sets, Set{Name: fmt.Sprint("set", i), Replicas: rapid.IntRange(0, 4).Draw(t, "replicas")})
		m.change(i, false)
	}
	m.scale()
	for m.boot(0) {
	}
	return m
}

// change gives a MachineSet another template.
func (m *model) change(set int, broken bool) {
	m.template++
	s := &m.in.Sets[set]
	m.templates[s.Name], m.broken[m.template] = m.template, broken
	for i := range s.Machines {
		s.Machines[i].Outdated = true
	}
	if broken && m.in.Group.Spec.Replacement.MaxSurge.IntValue() == 0 {
		m.steady = false
	}
}

// scale has every MachineSet create and delete Machines.
func (m *model) scale() {
	for i := range m.in.Sets {
		set := &m.in.Sets[i]
		counted, wanted := 0, set.Replicas
		for n := range set.Machines {
			if machine := &set.Machines[n]; !machine.Deleting {
				counted++
				wanted += one(machine.Outdated && machine.Replacing)
			}
		}
		for ; counted < wanted; counted++ {
			m.created++
			machine := Machine{
				Name: fmt.Sprintf("m%04d", m.created), Zone: string(rune('a' + i)), Created: m.in.Now.Add(time.Duration(m.created) * time.Nanosecond),
			}
			machine.UID = types.UID(machine.Name)
			m.of[machine.UID] = m.templates[set.Name]
			set.Machines = append(set.Machines, machine)
		}
		for ; counted > wanted; counted-- {
			m.surplus(set).Deleting = true
		}
	}
}

// surplus returns the Machine that a MachineSet deletes when there are too many.
func (m *model) surplus(set *Set) *Machine {
	var found *Machine
	for i := range set.Machines {
		machine := &set.Machines[i]
		if !machine.Deleting && (found == nil || cmp.Or(one(found.Failed)-one(machine.Failed), one(machine.Ready)-one(found.Ready)) < 0) {
			found = machine
		}
	}
	return found
}

// boot has the n-th Machine that has no Node get one, or fail.
func (m *model) boot(n int) bool {
	for i := range m.in.Sets {
		for k := range m.in.Sets[i].Machines {
			machine := &m.in.Sets[i].Machines[k]
			if machine.Ready || machine.Failed || machine.Deleting {
				continue
			}
			if n > 0 {
				n--
				continue
			}
			if m.broken[m.of[machine.UID]] {
				machine.Failed = true
				return true
			}
			machine.Ready, machine.Synced, machine.ReadyChange = true, true, m.in.Now
			m.proven[m.of[machine.UID]] = true
			return true
		}
	}
	return false
}

// end ends the deletion of the n-th Machine that is being deleted.
func (m *model) end(n int) bool {
	for i := range m.in.Sets {
		set := &m.in.Sets[i]
		for k := range set.Machines {
			if !set.Machines[k].Deleting {
				continue
			}
			if n == 0 {
				set.Machines = slices.Delete(set.Machines, k, k+1)
				return true
			}
			n--
		}
	}
	return false
}

// disturb has a Machine become NotReady.
func (m *model) disturb(n int) {
	for i := range m.in.Sets {
		for k := range m.in.Sets[i].Machines {
			if machine := &m.in.Sets[i].Machines[k]; machine.Ready && machine.Outdated {
				if n == 0 {
					machine.Ready, m.steady = false, false
					return
				}
				n--
			}
		}
	}
}

// machine returns a Machine by its UID, with its MachineSet.
func (m *model) machine(uid types.UID) (*Set, *Machine) {
	for i := range m.in.Sets {
		for k := range m.in.Sets[i].Machines {
			if m.in.Sets[i].Machines[k].UID == uid {
				return &m.in.Sets[i], &m.in.Sets[i].Machines[k]
			}
		}
	}
	m.Fatalf("there is no Machine %s", uid)
	return nil, nil
}

// decide decides and applies the decision, at most so many writes of it: then the process ends. The budget has so many places.
func (m *model) decide(writes, places int) {
	d := Decide(m.in)
	left := d.Spare
	for _, uid := range d.Unmark {
		if writes--; writes < 0 {
			return
		}
		_, machine := m.machine(uid)
		machine.Replacing = false
	}
	for _, uid := range d.Replace[:min(places, len(d.Replace))] {
		if writes--; writes < 0 {
			return
		}
		left += one(slices.Contains(d.Marked, uid))
		set, machine := m.machine(uid)
		m.checkOrder(set, machine)
		if template := m.templates[set.Name]; !m.proven[template] {
			m.gone[template]++
		}
		machine.Deleting = true
	}
	for _, uid := range d.MarkReplacing[:min(left, len(d.MarkReplacing))] {
		if writes--; writes < 0 {
			return
		}
		_, machine := m.machine(uid)
		machine.Replacing = true
	}
	m.check(len(d.Replace) > 0)
}

// checkOrder checks that no Machine of the MachineSet should have gone before this one.
func (m *model) checkOrder(set *Set, chosen *Machine) {
	if !chosen.Outdated || chosen.Deleting {
		m.Fatalf("Machine %+v is replaced", chosen)
	}
	for i := range set.Machines {
		other := &set.Machines[i]
		if !other.isCandidate() || other.UID == chosen.UID {
			continue
		}
		if cmp.Or(other.rank()-chosen.rank(), other.Created.Compare(chosen.Created)) < 0 {
			m.Fatalf("Machine %+v is replaced before %+v", chosen, other)
		}
	}
}

// check checks what holds at any time.
func (m *model) check(replaced bool) {
	settings := m.in.Group.Spec.Replacement
	marks, deleting := 0, 0
	for i := range m.in.Sets {
		set := &m.in.Sets[i]
		ready := 0
		for k := range set.Machines {
			machine := &set.Machines[k]
			marks += one(machine.Outdated && machine.Replacing && !machine.Deleting)
			deleting += one(machine.Outdated && machine.Deleting)
			ready += one(machine.Ready && !machine.Deleting)
		}
		least := set.Replicas
		if settings.MaxSurge.IntValue() == 0 {
			least -= settings.MaxInFlight.IntValue()
		}
		if m.steady && ready < least {
			m.Fatalf("MachineSet %s has %d Ready Machines: %+v", set.Name, ready, set.Machines)
		}
	}
	if marks > settings.MaxSurge.IntValue() {
		m.Fatalf("%d Machines are marked", marks)
	}
	if replaced && deleting > settings.MaxInFlight.IntValue() {
		m.Fatalf("%d Machines are being deleted", deleting)
	}
	for template, gone := range m.gone {
		if gone > 1 && !m.proven[template] {
			m.Fatalf("%d Machines went before one of template %d was available", gone, template)
		}
	}
}

// isDone reports whether every Machine is of the current template.
func (m *model) isDone() bool {
	for i := range m.in.Sets {
		set := &m.in.Sets[i]
		if len(set.Machines) != set.Replicas || slices.ContainsFunc(set.Machines, func(machine Machine) bool {
			return machine.Outdated || machine.Replacing || !machine.Ready
		}) {
			return false
		}
	}
	return true
}

// steps are what may happen to the model; what is there twice happens more often.
var steps = []string{"decide", "decide", "budget", "scale", "scale", "boot", "boot", "end", "crash", "change", "disturb"}

// TestDecide_Properties: never more than maxSurge Machines beyond replicas, never more than maxInFlight in deletion, in order; no second Machine goes
// before a new one is available; and all are replaced, wherever a process has ended.
func TestDecide_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			n := rapid.IntRange(0, 5).Draw(t, "n")
			switch rapid.SampledFrom(steps).Draw(t, "step") {
			case "decide":
				m.decide(100, 100)
			case "budget":
				m.decide(100, n)
			case "crash":
				m.decide(n, 100)
			case "scale":
				m.scale()
			case "boot":
				m.boot(n)
			case "end":
				m.end(n)
			case "change":
				m.change(n%len(m.in.Sets), rapid.Bool().Draw(t, "broken"))
			case "disturb":
				m.disturb(n)
			}
			m.in.Now = m.in.Now.Add(time.Second)
		}
		for i := range m.in.Sets {
			m.change(i, false)
		}
		for step := 0; !m.isDone(); step++ {
			if step > 200 {
				d := Decide(m.in)
				t.Fatalf("it does not end: %s, %+v\n%+v", brief(&d), d.Report, m.in.Sets)
			}
			m.decide(100, 100)
			m.scale()
			for m.boot(0) {
			}
			for m.end(0) {
			}
			m.in.Now = m.in.Now.Add(time.Second)
		}
	})
}
