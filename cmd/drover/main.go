// Command drover is the operator.
package main

import (
	"os"

	"github.com/drover-io/drover/app"
)

func main() { os.Exit(app.Main()) }
