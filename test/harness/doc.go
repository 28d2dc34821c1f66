// Package harness runs the operator under test as a process of its own, as the service account and under the permissions that are
// shipped, and helps tests to wait and to look.
//
// The process is the test binary itself, so it has the race detector and the faults that a test asks for: TestMain must begin with
// Main, which becomes the operator when it is started as one.
package harness
