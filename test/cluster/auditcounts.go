package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// AuditKey is what equal requests have in common.
type AuditKey struct {
	User, Verb, Group, Resource, Subresource string
	Code                                     int
}

// Write reports whether such a request changes something, if it succeeds.
func (k AuditKey) Write() bool { return (&AuditEvent{Verb: k.Verb}).Write() }

// AuditCounts is how many requests of each kind there were.
type AuditCounts map[AuditKey]int

// Counts counts the requests after a mark that match the filter; a nil filter matches all. It keeps no events, so that it may read the log of a
// roll-out to thousands of nodes.
func (a *Audit) Counts(mark AuditMark, filter func(*AuditEvent) bool) (AuditCounts, error) {
	counts := AuditCounts{}
	err := a.Each(mark, func(e *AuditEvent) error {
		if filter == nil || filter(e) {
			counts[AuditKey{
				User: e.User, Verb: e.Verb, Group: e.Group, Resource: e.Resource, Subresource: e.Subresource, Code: e.Code,
			}]++
		}
		return nil
	})
	return counts, err
}

// Total returns the number of requests that match the filter; a nil filter matches all.
func (c AuditCounts) Total(filter func(AuditKey) bool) int {
	total := 0
	for key, count := range c {
		if filter == nil || filter(key) {
			total += count
		}
	}
	return total
}

// String returns a table with one line per kind of request, ordered by user, group, resource, verb and code.
func (c AuditCounts) String() string {
	keys := make([]AuditKey, 0, len(c))
	for key := range c {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b AuditKey) int {
		return cmp.Or(cmp.Compare(a.User, b.User), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource),
			cmp.Compare(a.Subresource, b.Subresource), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Code, b.Code))
	})
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	_, _ = fmt.Fprintln(table, "USER\tVERB\tRESOURCE\tCODE\tCOUNT")
	for _, key := range keys {
		resource := key.Resource
		if key.Group != "" {
			resource += "." + key.Group
		}
		if key.Subresource != "" {
			resource += "/" + key.Subresource
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\n", key.User, key.Verb, resource, key.Code, c[key])
	}
	_ = table.Flush()
	return text.String()
}
