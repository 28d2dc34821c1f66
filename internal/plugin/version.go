package plugin

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker when a release is built.
var version = ""

// Version is the version of this build.
func Version() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// VersionInfo is what `version` prints.
type VersionInfo struct {
	TypeMeta
	Version string `json:"version"`
}

func newVersionCommand(o *options) *cobra.Command {
	var out output
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this plugin",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if out.table() {
				_, err := fmt.Fprintln(o.Out, "kubectl drover "+Version())
				return err
			}
			return out.print(o.Out, &VersionInfo{TypeMeta{APIVersion, "VersionInfo"}, Version()})
		},
	}
	out.addFlags(command)
	return command
}
