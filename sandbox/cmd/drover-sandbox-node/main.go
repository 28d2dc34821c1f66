// Command drover-sandbox-node is what the nodes of a sandbox run that are not played by kwok: a kubelet with its containers, or a hollow node.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-io/drover/sandbox/internal/lifeline"
	"github.com/drover-io/drover/sandbox/internal/node"
	"github.com/drover-io/drover/sandbox/internal/realnode"
	layout "github.com/drover-io/drover/test/realnode"
)

const usage = `drover-sandbox-node is what nodes of a sandbox run; drover-sandbox node add starts it.

  drover-sandbox-node %s FOLDER
  drover-sandbox-node {kubelet | kubemark} [ARGUMENT...]
`

func main() {
	line, err := lifeline.Inherit()
	if err != nil {
		fail(err)
	}
	if name, ok := node.Programs.Requested(os.Args[0]); ok {
		node.Programs.Run(name, os.Args[1:])
	}
	switch {
	case len(os.Args) == 3 && os.Args[1] == layout.Command:
		runNode(line, layout.Folder(os.Args[2]))
	case len(os.Args) > 1 && node.Programs[os.Args[1]] != nil:
		line.ExitWithParent()
		node.Programs.Run(os.Args[1], os.Args[2:])
	default:
		fmt.Fprintf(os.Stderr, usage, layout.Command)
		os.Exit(2)
	}
}

// runNode runs a real node until it gets a signal, or until the process that started it ends.
func runNode(line *lifeline.Line, folder layout.Folder) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if line != nil {
		go func() {
			line.Wait()
			stop()
		}()
	}
	if err := realnode.Run(ctx, folder); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "drover-sandbox-node: %v\n", err)
	os.Exit(1)
}
