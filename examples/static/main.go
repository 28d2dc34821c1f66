// Command static is Drover with a provider of a third party: its Machines are servers that were joined to the cluster by hand.
// docs/provider.md walks through it.
package main

import (
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/provider"
)

func main() {
	os.Exit(app.Main(app.WithProvider(provider.Provider{
		Name:  "static",
		Kinds: []schema.GroupKind{{Group: "static.example.com", Kind: "StaticMachineProviderSpec"}},
		New: func(environment provider.Environment) (provider.Actuator, error) {
			return &actuator{nodes: environment.Client}, nil
		},
	})))
}
