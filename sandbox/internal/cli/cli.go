// Package cli is the command line of drover-sandbox.
package cli

import (
	"fmt"
	"os"
	"slices"

	"github.com/drover-io/drover/sandbox/internal/components"
	"github.com/drover-io/drover/sandbox/internal/lifeline"
	"github.com/drover-io/drover/test/cluster"
)

// Main runs drover-sandbox with the arguments of the process and returns its exit code. Called as a component
// (drover-sandbox etcd ...) the process becomes that component.
func Main(args []string) int {
	line, err := lifeline.Inherit()
	if err != nil {
		return fail(err)
	}
	if len(args) > 1 {
		if args[1] == cluster.MindCommand {
			if err := mindProcess(line, args[2:]); err != nil {
				return fail(err)
			}
			return 0
		}
		if slices.Contains(components.Names(), args[1]) {
			line.ExitWithParent()
			components.Run(args[1], args[2:])
		}
	}
	return 2
}

func fail(err error) int {
	fmt.Fprintf(os.Stderr, "drover-sandbox: %v\n", err)
	return 1
}
