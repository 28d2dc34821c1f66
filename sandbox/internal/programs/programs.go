// Package programs lets one binary hold several programs: the binary becomes the program whose name it is called by.
package programs

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Set maps the name of a program to the function that becomes it. Each reads os.Args and returns its exit code.
type Set map[string]func() int

// Merge returns a set with the programs of all sets.
func Merge(sets ...Set) Set {
	merged := Set{}
	for _, set := range sets {
		maps.Copy(merged, set)
	}
	return merged
}

// Names lists the programs by name.
func (s Set) Names() []string { return slices.Sorted(maps.Keys(s)) }

// Run becomes the named program with the given arguments and does not return.
func (s Set) Run(name string, args []string) {
	run, ok := s[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "%s: no component %q; there are %v\n", filepath.Base(os.Args[0]), name, s.Names())
		os.Exit(2)
	}
	os.Args = append([]string{name}, args...)
	os.Exit(run())
}

// Requested reports whether the binary was called by a program's name, as through a symbolic link called kubectl.
func (s Set) Requested(argv0 string) (string, bool) {
	name := filepath.Base(argv0)
	_, ok := s[name]
	return name, ok
}
