// Command drover is the operator.
package main

import (
	"os"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/provider/kubemark"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/provider/vsphere"
)

func main() {
	os.Exit(app.Main(app.WithProvider(vsphere.Provider()), app.WithProvider(kwok.Provider()), app.WithProvider(kubemark.Provider())))
}
