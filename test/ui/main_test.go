// Package ui states what the page of kubectl drover ui shows of a real control plane, in a real Chromium.
package ui

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/browser"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var (
	env    *cluster.Cluster
	shared harness.SharedOperator
)

func TestMain(m *testing.M) {
	if browser.Path() == "" {
		// Each test says that it is skipped, and why.
		os.Exit(m.Run())
	}
	os.Exit(harness.Main(m, cluster.Options{Components: []string{cluster.Kwok}}, &env, shared.Stop))
}
