package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/internal/version"
)

// VersionInfo is what `version` prints.
type VersionInfo struct {
	TypeMeta
	Version string `json:"version"`
	Commit  string `json:"commit"`
}

func newVersionCommand(o *options) *cobra.Command {
	var out output
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if err := out.validate(); err != nil {
				return err
			}
			if out.table() {
				_, err := fmt.Fprintln(o.Out, version.String("kubectl-drover"))
				return err
			}
			return out.print(o.Out, &VersionInfo{TypeMeta{APIVersion, "VersionInfo"}, version.Version(), version.Commit()})
		},
	}
	out.addFlags(command)
	return command
}
