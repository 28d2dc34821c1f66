package cli

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// linked are the modules whose versions are worth knowing.
var linked = []struct{ name, module string }{
	{"kubernetes", "k8s.io/kubernetes"}, {"etcd", "go.etcd.io/etcd/server/v3"}, {"kwok", "sigs.k8s.io/kwok"},
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the components",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fmt.Errorf("the program was built without information about its modules")
			}
			versions := map[string]string{}
			for _, module := range info.Deps {
				versions[module.Path] = module.Version
			}
			for _, entry := range linked {
				if _, err := fmt.Fprintf(command.OutOrStdout(), "%s %s\n", entry.name, versions[entry.module]); err != nil {
					return err
				}
			}
			_, err := fmt.Fprintln(command.OutOrStdout(), info.GoVersion)
			return err
		},
	}
}
