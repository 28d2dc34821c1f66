// Package cli is `kubectl drover`: it shows what Drover's metadata capability would change and how far it is, says who owns what
// on a Node, and pauses it.
//
// It decides with the operator's own code (internal/metadata/plan) from the objects of the cluster alone, so it also works where
// Drover is not installed. Gathering (fetch.go), data (view files, types.go) and drawing (draw files) are apart.
package cli
