package vcenter

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// ErrStarting is the error of an index that is not complete yet.
var ErrStarting = errors.New("reading the virtual machines of vCenter")

// UnavailableError is the error of a vCenter that does not answer, or does not let Drover in.
type UnavailableError struct {
	// Server is the vCenter.
	Server string
	// Err says why.
	Err error
}

// Error returns what is wrong.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("vCenter %s is not available: %v", e.Server, e.Err)
}

// Unwrap returns the cause.
func (e *UnavailableError) Unwrap() error { return e.Err }

// volatile matches what differs in each text of the same failure: the local port of a connection, and the time at which a certificate was checked.
var volatile = regexp.MustCompile(`\S+:\d+->|current time \S+ `)

// stableError is an error whose text is the same each time that the same thing fails: it becomes part of the conditions of Machines, and a text that
// changes would be a write of every Machine.
type stableError struct{ error }

// Error returns what is wrong.
func (e *stableError) Error() string { return volatile.ReplaceAllString(e.error.Error(), "") }

// Unwrap returns the cause.
func (e *stableError) Unwrap() error { return e.error }

// stable returns an error whose text stays the same. One whose text does so anyway is not wrapped: its type distinguishes faults from failed
// connections.
func stable(err error) error {
	if err == nil || !volatile.MatchString(err.Error()) {
		return err
	}
	return &stableError{err}
}

// DuplicateError is the error of virtual machines that have the same instance UUID.
type DuplicateError struct {
	// UUID is what they have in common.
	UUID string
	// Names are the names of two of them.
	Names []string
}

// Error returns what is wrong, and what to do.
func (e *DuplicateError) Error() string {
	return fmt.Sprintf("virtual machines %s have the same instance UUID %s; find out which one is the Machine's, and change the UUID of the other",
		strings.Join(e.Names, " and "), e.UUID)
}

// HiddenError is the error of a virtual machine that exists, and is not shown to the user any more.
type HiddenError struct {
	// Name is the name of the virtual machine.
	Name string
}

// Error returns what is wrong, and what to do.
func (e *HiddenError) Error() string {
	return fmt.Sprintf("virtual machine %s exists, and is not shown to this user any more: check the permissions of the user", e.Name)
}
