package controller

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// States keeps what a controller knows of each object between reconciliations. Nothing in it may be needed for a correct decision: it is lost when
// the process ends. It is safe for concurrent use; the state itself belongs to the worker that reconciles the object.
type States[S any] struct {
	create func() *S
	end    func(types.NamespacedName, types.UID, *S)

	mu     sync.Mutex
	states map[types.NamespacedName]state[S]
}

type state[S any] struct {
	uid   types.UID
	value *S
}

// NewStates returns an empty States. create returns the state of an object that is reconciled for the first time. end is called once for each state
// that is not needed any more; nil is for nothing to do.
func NewStates[S any](create func() *S, end func(types.NamespacedName, types.UID, *S)) *States[S] {
	if end == nil {
		end = func(types.NamespacedName, types.UID, *S) {}
	}
	return &States[S]{create: create, end: end, states: map[types.NamespacedName]state[S]{}}
}

// Get returns the state of an object. The state of an earlier object of the same name is ended.
func (s *States[S]) Get(key types.NamespacedName, uid types.UID) *S {
	s.mu.Lock()
	current, found := s.states[key]
	s.mu.Unlock()
	if found && current.uid == uid {
		return current.value
	}
	s.Forget(key)
	value := s.create()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.states[key] = state[S]{uid, value}
	return value
}

// Peek returns the state of an object; nil if it has none.
func (s *States[S]) Peek(key types.NamespacedName) *S {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.states[key].value
}

// Forget ends the state of an object that is gone.
func (s *States[S]) Forget(key types.NamespacedName) {
	s.mu.Lock()
	current, found := s.states[key]
	delete(s.states, key)
	s.mu.Unlock()
	if found {
		s.end(key, current.uid, current.value)
	}
}

// Clear ends the states of all objects, when the controller stops.
func (s *States[S]) Clear() {
	s.mu.Lock()
	states := s.states
	s.states = map[types.NamespacedName]state[S]{}
	s.mu.Unlock()
	for key, current := range states {
		s.end(key, current.uid, current.value)
	}
}

// Len returns how many objects have a state.
func (s *States[S]) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.states)
}
