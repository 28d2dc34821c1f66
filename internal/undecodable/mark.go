// Package undecodable keeps one object that Go cannot decode from stopping Drover. What an OpenAPI schema lets through is more than what Go
// reads: the date 2020-01-01t00:00:00z is a date-time for the API server and an error for metav1.Time, and an integer of 64 bits is none of 32.
// client-go fails a whole LIST for it.
//
// Here such an object is decoded without the fields that cannot be decoded, and gets a mark. The cache has it, so that it never counts as absent,
// but a reconciliation that needs it returns an Error and changes nothing.
package undecodable

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Annotation marks an object of the cache that could not be decoded as a whole. It exists in memory only. Its value begins with a text that no other
// process knows, so that no user can mark an object.
const Annotation = "drover.dev/undecodable"

// MaxValue is the longest value of Annotation, in bytes.
const MaxValue = 1 << 10

var secret = rand.Text() + " "

// Error is why a reconciliation that needs an object did nothing: the object cannot be decoded. Only a user can correct that.
type Error struct {
	// Kind, Namespace and Name are the object's. Namespace is empty for a kind without namespaces.
	Kind, Namespace, Name string
	// Problem names the fields and what is wrong with each.
	Problem string
}

// Error returns what is wrong and what to do.
func (e *Error) Error() string {
	name := e.Name
	if e.Namespace != "" {
		name = e.Namespace + "/" + e.Name
	}
	return fmt.Sprintf("%s %s cannot be decoded: %s; Drover does not act on it until the field is corrected", e.Kind, name, e.Problem)
}

// Is reports whether an error is, or wraps, nothing but Errors: beside another error a reconciliation has failed for that one, too.
func Is(err error) bool {
	switch err := err.(type) { //nolint:errorlint // the tree of errors is walked here
	case *Error:
		return true
	case interface{ Unwrap() error }:
		return Is(err.Unwrap())
	case interface{ Unwrap() []error }:
		all := err.Unwrap()
		return len(all) > 0 && !slices.ContainsFunc(all, func(err error) bool { return !Is(err) })
	}
	return false
}

// Check returns an Error for an object of the cache that could not be decoded, and nil for every other one.
func Check(object client.Object) error {
	problem := ProblemOf(object)
	if problem == "" {
		return nil
	}
	return &Error{Kind: kindOf(object), Namespace: object.GetNamespace(), Name: object.GetName(), Problem: problem}
}

// CheckAll returns an Error for the first of some objects of the cache that could not be decoded.
func CheckAll[T any, P interface {
	*T
	client.Object
}](objects []T) error {
	for i := range objects {
		if err := Check(P(&objects[i])); err != nil {
			return err
		}
	}
	return nil
}

// ProblemOf returns why an object of the cache could not be decoded. It is empty for an object that could be.
func ProblemOf(object client.Object) string {
	problem, marked := strings.CutPrefix(object.GetAnnotations()[Annotation], secret)
	if !marked {
		return ""
	}
	return problem
}

// Changed reports whether an object of the cache could be decoded before and cannot be now, or the other way round.
func Changed(before, after any) bool {
	from, ok := before.(client.Object)
	to, also := after.(client.Object)
	return ok && also && ProblemOf(from) != ProblemOf(to)
}

func mark(object client.Object, problem string) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[Annotation] = secret + problem
	object.SetAnnotations(annotations)
}

// kindOf returns the name of an object's Go type, which is also the name of its kind: decoded objects have no TypeMeta.
func kindOf(object client.Object) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndexByte(name, '.')+1:]
}
