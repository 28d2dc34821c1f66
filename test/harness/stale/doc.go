// Package stale runs an operator behind a proxy that makes its view of one kind old, and judges the requests that delete, evict, release, or create
// what costs. One passes if the true state warrants it, or what the operator could know: its own writes, the other kinds as they were at any moment
// shortly before, and the disturbed kind as of the freeze, the delay or the change of leader.
//
// What the proxy does is what API servers do: a watch may be late for as long as it likes, and a LIST with resourceVersion=0 may be answered from a
// watch cache that lags behind (https://kubernetes.io/docs/reference/using-api/api-concepts/#semantics-for-get-and-list). A LIST without a
// resourceVersion and a GET always show the true state. The method comes from Sieve (OSDI'22): perturb the controller's view, and compare the end
// state with the end state of an undisturbed run.
package stale
