// Package controller holds what all controllers of Drover share: how a controller is built and run, when an object is reconciled again, and
// the state that is kept for each object between reconciliations.
package controller
