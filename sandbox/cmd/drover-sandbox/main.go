// Command drover-sandbox is a Kubernetes control plane in one binary, for demos, tests and benchmarks.
package main

import (
	"os"
	_ "time/tzdata" // kube-apiserver imports it in its main package: schemas and CronJobs name time zones

	"github.com/drover-io/drover/sandbox/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
