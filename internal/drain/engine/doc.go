// Package engine carries out what package drain decides: it reads pods and PodDisruptionBudgets from the caches, and evicts the pods of all nodes
// through one Queue.
package engine
