// Package harness runs the operator under test as a process of its own, as the service account and under the permissions that are
// shipped, and helps tests to wait and to look.
//
// The program is test/operator, which make test builds once, without the race detector; make test-race runs the same tests with one that has it. A
// test that is run alone builds it first.
package harness
