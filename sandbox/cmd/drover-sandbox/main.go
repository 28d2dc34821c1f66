// Command drover-sandbox is a Kubernetes control plane in one binary.
package main

import (
	"os"

	"github.com/drover-io/drover/sandbox/internal/components"
)

func main() {
	components.Run(os.Args[1], os.Args[2:])
}
