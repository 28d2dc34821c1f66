package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/test/cluster"
)

// dataEnv is the environment variable that names the data folder.
const dataEnv = "DROVER_SANDBOX_DATA"

// settings are what every command shares.
type settings struct {
	data string // the flag --data
}

// folder returns the data folder.
func (s *settings) folder() (string, error) {
	if s.data != "" {
		return s.data, nil
	}
	if dir := os.Getenv(dataEnv); dir != "" {
		return dir, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a folder for the data: %w; name one with --data or %s", err, dataEnv)
	}
	return filepath.Join(cache, "drover-sandbox"), nil
}

// open returns the sandbox that an earlier up made.
func (s *settings) open(log io.Writer) (*cluster.Cluster, error) {
	dir, err := s.folder()
	if err != nil {
		return nil, err
	}
	c, err := cluster.Open(dir, cluster.Options{Log: log})
	if errors.Is(err, os.ErrNotExist) {
		return nil, &missingError{dir: dir}
	}
	return c, err
}

// missingError says that a folder holds no sandbox.
type missingError struct{ dir string }

func (e *missingError) Error() string {
	return fmt.Sprintf("there is no sandbox in %s; make one with drover-sandbox up, or name another folder with --data "+
		"or %s", e.dir, dataEnv)
}

// Is reports whether the target is os.ErrNotExist.
func (e *missingError) Is(target error) bool { return target == os.ErrNotExist }

// completeComponents offers the components' names to the shell.
func completeComponents(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return append(cluster.Components(), cluster.MachineConfig), cobra.ShellCompDirectiveNoFileComp
}
