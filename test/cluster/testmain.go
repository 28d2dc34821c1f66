package cluster

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// TestRunner is what Main needs of a *testing.M. Naming that type would link package testing, and its flags, into
// every program that uses this package.
type TestRunner interface{ Run() int }

// Main is the body of a TestMain: it starts a control plane, stores it where keep points, runs the tests, stops the
// control plane and returns the exit code for os.Exit. When a test fails the data folder with the logs is kept and
// named.
func Main(m TestRunner, opts Options, keep **Cluster) int {
	if onlyLists() {
		return m.Run()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c, err := Start(ctx, opts)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cluster: the tests need a control plane: %v\n", err)
		return 1
	}
	*keep = c
	code := m.Run()
	if code != 0 {
		c.opts.Keep = true
		fmt.Fprintf(os.Stderr, "cluster: the logs of the control plane are in %s\n", c.Dir())
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// onlyLists reports whether go test was asked for the names of tests: that needs no control plane.
func onlyLists() bool {
	if flag.Lookup("test.list") == nil {
		return false
	}
	flag.Parse()
	return flag.Lookup("test.list").Value.String() != ""
}
