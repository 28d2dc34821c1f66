// Command missing says why the tests on real nodes are left out on this machine; nothing where they are not.
package main

import (
	"fmt"

	"github.com/drover-io/drover/test/realnode"
)

func main() {
	if missing := realnode.Missing(); len(missing) > 0 {
		fmt.Printf("The tests on real nodes (test/node) are left out: %v\n", missing)
	}
}
