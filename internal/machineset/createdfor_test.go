package machineset

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
)

// createdFor returns what the living Machines were created for that Drover has created.
func (s *fixture) createdFor() string {
	s.t.Helper()
	var values []string
	for _, name := range s.living() {
		if value := s.machine(name).Annotations[machineapi.CreatedForAnnotation]; value != "" {
			values = append(values, value)
		}
	}
	return fmt.Sprint(values)
}

// remove deletes a Machine, and then lets it go.
func (s *fixture) remove(name string) (gone func()) {
	s.t.Helper()
	machine := s.machine(name)
	if err := s.client.Delete(s.t.Context(), machine, guard(machine)); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		machine := s.machine(name)
		machine.Finalizers = nil
		if err := s.client.Update(s.t.Context(), machine); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestCreatedFor(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	uid := s.machine("a").UID
	s.remove("a")
	s.resize(3)
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	if got, want := s.createdFor(), fmt.Sprintf("[deleted/%s growth]", uid); got != want {
		t.Errorf("created for %s, want %s", got, want)
	}
	s.reconciles("")
}

// TestCreatedFor_CreationFails: a Machine is still owed when the other one has gone, the status counts one less, and another process goes on.
func TestCreatedFor_CreationFails(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	gone := s.remove("a")
	s.fail = only("create", denied)
	// If the process ended before the status, or before the record, nothing would be lost.
	s.reconciles("create Machine, patch MachineSet/web")
	s.expect(2, 2, 2)
	s.reconciles("status MachineSet/web")
	s.expect(1, 1, 1, "MachinesCreated=False CreateError")
	s.reconciles("")
	gone()
	s.restart(nil)
	s.resize(4)
	s.reconciles("create Machine, status MachineSet/web")
	s.fail = nil
	s.clock.SetTime(start.Add(maxBackoff))
	s.reconciles("create Machine, create Machine, create Machine, patch MachineSet/web")
	s.reconciles("status MachineSet/web")
	s.reconciles("")
	if got := s.createdFor(); got != "[deleted growth growth]" {
		t.Errorf("created for %s", got)
	}
	if got, exists := s.set().Annotations[machineapi.ReachedReplicasAnnotation]; exists {
		t.Errorf("the record %q stays", got)
	}
}

// TestCreatedFor_RecordDenied: a status that is not written would hide why there are no Machines.
func TestCreatedFor_RecordDenied(t *testing.T) {
	s := newFixture(t, Options{}, pool(1)...)
	s.settle()
	s.remove("a")
	s.fail = denied
	s.reconciles("create Machine, patch MachineSet/web, status MachineSet/web")
	s.fail = func(write string) error {
		if write == "status MachineSet/web" {
			return nil
		}
		return denied(write)
	}
	s.clock.SetTime(start.Add(maxBackoff))
	s.reconciles("create Machine, patch MachineSet/web, status MachineSet/web")
	s.expect(0, 0, 0, "MachinesCreated=False CreateError")
}

// TestCreatedFor_Paused: what a user deletes while the MachineSet is paused is owed when it goes on.
func TestCreatedFor_Paused(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Annotations = map[string]string{paused.Annotation: ""} })
	s.reconciles("status MachineSet/web")
	s.remove("a")()
	s.reconciles("patch MachineSet/web")
	s.reconciles("status MachineSet/web")
	s.expect(1, 1, 1, "Resized=False PausedByAnnotation")
	s.reconciles("")
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) { delete(set.Annotations, paused.Annotation) })
	s.settle()
	if got := s.createdFor(); got != "[deleted]" {
		t.Errorf("created for %s", got)
	}
}
