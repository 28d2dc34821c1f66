// Package faults kills the operator at every point and compares what is left with what an undisturbed run leaves.
package faults

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) { os.Exit(harness.Main(m, cluster.Options{}, &env)) }
