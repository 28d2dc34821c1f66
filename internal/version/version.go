// Package version holds which build of Drover this is.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Set by the linker: -X github.com/drover-io/drover/internal/version.version=v1.2.3.
var version, commit string

// Version is the release, or "devel" for a build from a working tree.
func Version() string {
	if version == "" {
		return "devel"
	}
	return version
}

// Commit is the commit that was built, "unknown" when neither the linker nor Go recorded it.
func Commit() string {
	if commit != "" {
		return commit
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return "unknown"
}

// String is the line that `version` prints.
func String(program string) string {
	return fmt.Sprintf("%s %s (commit %s, %s, %s/%s)", program, Version(), Commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
