// Command operator is Drover as the integration tests run it: with every provider, and with the faults of test/operator/fault in its connection to
// the API server. It ends when its standard input closes, so no operator outlives the test process that started it.
package main

import (
	"io"
	"os"

	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/provider/kubemark"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/provider/vsphere"
	"github.com/drover-io/drover/test/operator/fault"
)

func main() {
	go endWithParent()
	os.Exit(app.Main(app.WithProvider(kwok.Provider()), app.WithProvider(vsphere.Provider()), app.WithProvider(kubemark.Provider()),
		app.WithClientConfig(func(config *rest.Config) { config.Wrap(fault.FromEnvironment()) })))
}

// endWithParent ends the operator when the test process is gone.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}
