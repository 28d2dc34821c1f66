// Package conformance has the tests that every provider of machines passes. A provider's own test is one call of Run.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/provider"
)

// Subject is the provider under test.
type Subject struct {
	// Actuator is what is tested.
	Actuator provider.Actuator
	// Machine returns a Machine of that name whose instance can be made. It exists in the cluster if the provider needs that.
	Machine func(t *testing.T, name string) *machinev1beta1.Machine
	// Invalid returns a Machine that can never become an instance; nil when the provider has no such Machines.
	Invalid func(t *testing.T, name string) *machinev1beta1.Machine
	// Sized is a Machine whose capacity is known, and Capacity that capacity; nil where the provider knows no capacities.
	Sized    func(t *testing.T) *machinev1beta1.Machine
	Capacity *provider.Capacity
	// Lose takes the instance of a Machine away behind the provider's back; nil when the test cannot.
	Lose func(t *testing.T, machine *machinev1beta1.Machine)
	// Count says how many instances there are of a Machine; nil when the test cannot.
	Count func(t *testing.T, machine *machinev1beta1.Machine) int
	// Patience is how long an instance may take to come and to go; zero is a minute.
	Patience time.Duration
}

// Run tests a provider.
func Run(t *testing.T, s Subject) {
	if s.Patience == 0 {
		s.Patience = time.Minute
	}
	for name, test := range map[string]func(*testing.T, Subject){
		"there is none before it is made":                    noneBefore,
		"it is made, looked at and ended":                    wholeLife,
		"to make it twice makes one":                         madeTwice,
		"made, and the process ends before that is recorded": notRecorded,
		"many at once":                       manyAtOnce,
		"to end it twice is no error":        endedTwice,
		"one that is lost is none":           lost,
		"what can never be is said to be so": invalid,
		"the Machine is not changed":         unchanged,
		"a call ends with its context":       canceled,
		"the capacity is that of the Node":   capacity,
	} {
		t.Run(name, func(t *testing.T) { test(t, s) })
	}
}

// record puts on a Machine what Drover does.
func record(machine *machinev1beta1.Machine, instance *provider.Instance) {
	if instance.ProviderID != "" && machine.Spec.ProviderID == nil {
		machine.Spec.ProviderID = &instance.ProviderID
	}
	if len(instance.Addresses) > 0 {
		machine.Status.Addresses = instance.Addresses
	}
	if instance.Status != nil {
		machine.Status.ProviderStatus = instance.Status
	}
}

// create makes an instance, and waits where the provider says so.
func (s *Subject) create(t *testing.T, machine *machinev1beta1.Machine) *provider.Instance {
	t.Helper()
	var instance *provider.Instance
	s.wait(t, "the instance", func() error {
		var err error
		instance, err = s.Actuator.Create(t.Context(), machine)
		if _, only := provider.AsRequeueAfter(err); err != nil && !only {
			t.Fatalf("Create: %v", err)
		}
		return err
	})
	if instance == nil || instance.ProviderID == "" && len(instance.Addresses) == 0 {
		t.Fatalf("Create returned %+v: by neither providerID nor address its Node can be found", instance)
	}
	t.Cleanup(func() { s.end(t, machine) })
	return instance
}

// end ends an instance and waits until it is gone.
func (s *Subject) end(t *testing.T, machine *machinev1beta1.Machine) {
	t.Helper()
	deleted := machine.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	s.wait(t, "the end of the instance", func() error {
		ctx := context.WithoutCancel(t.Context())
		if err := s.Actuator.Delete(ctx, deleted); err != nil {
			return err
		}
		instance, err := s.Actuator.Get(ctx, deleted)
		if err == nil && instance != nil {
			err = fmt.Errorf("it is %s", instance.State)
		}
		return err
	})
}

func (s *Subject) wait(t *testing.T, what string, condition func() error) {
	t.Helper()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(s.Patience); ; <-ticker.C {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting for %s: %v", what, err)
		}
	}
}

func (s *Subject) get(t *testing.T, machine *machinev1beta1.Machine) *provider.Instance {
	t.Helper()
	instance, err := s.Actuator.Get(t.Context(), machine)
	if err != nil {
		t.Fatalf("Get: %v", err)
	}
	return instance
}

func noneBefore(t *testing.T, s Subject) {
	if instance := s.get(t, s.Machine(t, "none")); instance != nil {
		t.Errorf("Get returned %+v", instance)
	}
}

func wholeLife(t *testing.T, s Subject) {
	machine := s.Machine(t, "life")
	record(machine, s.create(t, machine))
	instance := s.get(t, machine)
	if instance == nil {
		t.Fatal("Get finds none")
	}
	was := ""
	if machine.Spec.ProviderID != nil {
		was = *machine.Spec.ProviderID
	}
	if instance.ProviderID != was {
		t.Errorf("its providerID was %q and is %q", was, instance.ProviderID)
	}
	// It waits until Get finds none.
	s.end(t, machine)
}

func madeTwice(t *testing.T, s Subject) {
	machine := s.Machine(t, "twice")
	first := s.create(t, machine)
	second := s.create(t, machine)
	if first.ProviderID != second.ProviderID {
		t.Errorf("it made %s and %s", first.ProviderID, second.ProviderID)
	}
	s.one(t, machine)
}

// one makes sure that there is one instance.
func (s *Subject) one(t *testing.T, machine *machinev1beta1.Machine) {
	t.Helper()
	if s.Count == nil {
		return
	}
	s.wait(t, "one instance", func() error {
		if n := s.Count(t, machine); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
}

func notRecorded(t *testing.T, s Subject) {
	machine := s.Machine(t, "unrecorded")
	first := s.create(t, machine)
	// The next process has the Machine as it was, and looks before it makes.
	if second := s.get(t, machine); second != nil && second.ProviderID != first.ProviderID {
		t.Errorf("it made %s, and finds %s", first.ProviderID, second.ProviderID)
	}
	if again := s.create(t, machine); again.ProviderID != first.ProviderID {
		t.Errorf("it made %s, and then %s", first.ProviderID, again.ProviderID)
	}
	s.one(t, machine)
}

func manyAtOnce(t *testing.T, s Subject) {
	const count = 8
	machines := make([]*machinev1beta1.Machine, count)
	for i := range machines {
		machines[i] = s.Machine(t, fmt.Sprintf("many-%d", i))
	}
	ids := make([]string, count)
	var group sync.WaitGroup
	for i, machine := range machines {
		group.Go(func() { ids[i] = s.create(t, machine).ProviderID })
	}
	group.Wait()
	seen := map[string]bool{}
	for _, id := range ids {
		if id != "" && seen[id] {
			t.Errorf("two Machines have the providerID %s", id)
		}
		seen[id] = true
	}
}

func endedTwice(t *testing.T, s Subject) {
	machine := s.Machine(t, "ended")
	record(machine, s.create(t, machine))
	s.end(t, machine)
	s.end(t, machine)
	s.end(t, s.Machine(t, "never-made"))
}

func lost(t *testing.T, s Subject) {
	if s.Lose == nil {
		t.Skip("the provider's test cannot lose an instance")
	}
	machine := s.Machine(t, "lost")
	record(machine, s.create(t, machine))
	s.Lose(t, machine)
	s.wait(t, "the instance is known to be lost", func() error {
		if instance := s.get(t, machine); instance != nil {
			return fmt.Errorf("it is found: %+v", instance)
		}
		return nil
	})
}

func invalid(t *testing.T, s Subject) {
	if s.Invalid == nil {
		t.Skip("the provider's test knows no Machine that can never be")
	}
	machine := s.Invalid(t, "invalid")
	_, err := s.Actuator.Create(t.Context(), machine)
	var typed *provider.Error
	if !errors.As(err, &typed) || typed.Reason != machinev1beta1.InvalidConfigurationMachineError {
		t.Errorf("Create: %v (%T), want one made by provider.InvalidConfiguration", err, err)
	}
	// Its Machine must be able to go.
	if instance, err := s.Actuator.Get(t.Context(), machine); err != nil || instance != nil {
		t.Errorf("Get: %+v, %v", instance, err)
	}
}

func unchanged(t *testing.T, s Subject) {
	machine := s.Machine(t, "unchanged")
	before := machine.DeepCopy()
	s.create(t, machine)
	s.get(t, machine)
	if left, right := fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", machine); left != right {
		t.Errorf("it was\n%s\nand is\n%s", left, right)
	}
}

func canceled(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done := make(chan struct{})
	machine := s.Machine(t, "canceled")
	go func() {
		defer close(done)
		_, _ = s.Actuator.Create(ctx, machine)
	}()
	select {
	case <-done:
	case <-time.After(s.Patience):
		t.Error("Create goes on after its context has ended")
	}
	s.end(t, machine)
}

// NewMachine makes a Machine in memory for a provider that needs none in the cluster.
func NewMachine(name string) *machinev1beta1.Machine {
	return &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "conformance", Name: name, UID: types.UID("uid-of-" + name), CreationTimestamp: metav1.Now(),
	}}
}
