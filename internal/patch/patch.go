// Package patch builds JSON Patches (RFC 6902) that fail when another writer has changed what they are about.
package patch

import (
	"encoding/json"
	"strings"
)

// operation is one step. Value is always written: a test for null is how absence is tested.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Builder collects the steps of one patch. The zero value is an empty patch.
type Builder struct {
	operations []operation
}

// Empty reports whether there is no step yet.
func (b *Builder) Empty() bool { return len(b.operations) == 0 }

// Bytes renders the patch.
func (b *Builder) Bytes() ([]byte, error) { return json.Marshal(b.operations) }

// Set writes a value, whether one is there or not.
func (b *Builder) Set(path string, value any) { b.add("add", path, value) }

// Remove drops a value that is there.
func (b *Builder) Remove(path string) { b.add("remove", path, nil) }

// Test makes the patch fail unless the value is this one; with nil, it fails unless the value is absent.
func (b *Builder) Test(path string, value any) { b.add("test", path, value) }

// TestEntry makes the patch fail unless an entry of a map is as it was seen.
func (b *Builder) TestEntry(path string, seen map[string]string, key string) {
	if value, present := seen[key]; present {
		b.Test(Pointer(path, key), value)
		return
	}
	b.Test(Pointer(path, key), nil)
}

// Map makes sure that a map is there to add to, and that it is still absent if it was; it reports whether it was there.
func (b *Builder) Map(path string, seen map[string]string) bool {
	if len(seen) > 0 {
		return true
	}
	b.Test(path, nil)
	b.Set(path, map[string]string{})
	return false
}

// List replaces a list that is one value on the wire, if it is as it was seen.
func List[T any](b *Builder, path string, seen, after []T) {
	if len(seen) == 0 {
		b.Test(path, nil)
	} else {
		b.Test(path, seen)
	}
	if len(after) == 0 {
		b.Remove(path)
		return
	}
	b.Set(path, after)
}

func (b *Builder) add(op, path string, value any) {
	b.operations = append(b.operations, operation{Op: op, Path: path, Value: value})
}

var escape = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer joins a path and a key as RFC 6901 asks.
func Pointer(path, key string) string { return path + "/" + escape.Replace(key) }
