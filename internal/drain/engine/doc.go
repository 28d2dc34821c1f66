// Package engine carries out what internal/drain decides: it reads pods and budgets from the caches, and makes the requests for all nodes
// through one Queue.
package engine
