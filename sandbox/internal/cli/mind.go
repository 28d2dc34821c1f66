package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/drover-io/drover/sandbox/internal/lifeline"
	"github.com/drover-io/drover/test/cluster"
)

// mindProcess waits for the end of the parent and then ends the process that the arguments name, a program that is
// not this one and so has no lifeline of its own.
func mindProcess(line *lifeline.Line, args []string) error {
	if line == nil || len(args) != 2 {
		return fmt.Errorf("%s is for drover-sandbox's own use", cluster.MindCommand)
	}
	pid, err := strconv.Atoi(args[0])
	if err != nil {
		return fmt.Errorf("the number of the process: %w", err)
	}
	started, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return fmt.Errorf("the start of the process: %w", err)
	}
	line.Wait()
	if err := cluster.EndProcess(pid, started); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
