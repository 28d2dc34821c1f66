// Package harness runs the operator under test as a process of its own, as the service account and under the permissions that are
// shipped, and helps tests to wait and to look.
//
// The program is test/operator. make test builds it once, without the race detector; make test-race runs the same tests with the race detector. A
// test that is run alone builds the program first.
package harness
