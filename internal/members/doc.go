// Package members says which Nodes belong to which NodeGroup. The rule is pure; Finder applies it to a cache.
package members
