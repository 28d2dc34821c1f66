// Package lifeline ends this process when its parent ends, even if the parent is killed.
//
// A test that is killed cannot stop its control plane, and a signal on the parent's death reaches only the children
// of one thread. A pipe has neither weakness: the kernel closes the parent's end.
package lifeline

import (
	"errors"
	"io"
	"os"
	"strconv"
	"syscall"

	"github.com/drover-io/drover/test/cluster"
)

// Line is an inherited pipe. It is nil in a process that may outlive its parent.
type Line struct{ pipe *os.File }

// Inherit takes the pipe that the parent left, if it left one, and hides it from the children of this process.
func Inherit() (*Line, error) {
	value, ok := os.LookupEnv(cluster.LifelineEnv)
	if !ok {
		return nil, nil
	}
	if err := os.Unsetenv(cluster.LifelineEnv); err != nil {
		return nil, err
	}
	number, err := strconv.Atoi(value)
	if err != nil || number < 3 {
		return nil, errors.New(cluster.LifelineEnv + " is not the number of an inherited pipe: " + value)
	}
	syscall.CloseOnExec(number)
	return &Line{pipe: os.NewFile(uintptr(number), "lifeline")}, nil
}

// Wait returns when the parent ended, and at once for a nil Line.
func (l *Line) Wait() {
	if l != nil {
		_, _ = io.Copy(io.Discard, l.pipe)
	}
}

// ExitWithParent ends this process, at once and without a goodbye, when the parent ends.
func (l *Line) ExitWithParent() {
	if l == nil {
		return
	}
	go func() {
		l.Wait()
		os.Exit(1)
	}()
}
