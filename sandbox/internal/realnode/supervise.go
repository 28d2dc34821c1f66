// Package realnode runs a real node on this machine: containerd and a kubelet in a network namespace of their own. The files
// that it shares with its creator are in test/realnode.
package realnode

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
	"time"

	node "github.com/drover-io/drover/test/realnode"
)

// pollInterval is how often something is looked at that gives no notice.
const pollInterval = 50 * time.Millisecond

// startLimit is how long containerd and the folder's files may take.
const startLimit = time.Minute

// supervisor runs one node.
type supervisor struct {
	folder  node.Folder
	plan    *node.Plan
	network node.Network
	// ended has the names of programs that have ended.
	ended chan error
}

// Run runs the node of a folder until the context ends, and then removes what it has left on this machine.
func Run(ctx context.Context, folder node.Folder) (err error) {
	s := &supervisor{folder: folder, ended: make(chan error, 2)}
	if s.plan, err = folder.Plan(); err != nil {
		return err
	}
	if err := s.takeNetwork(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.dropNetwork()) }()
	proxy, err := s.serve(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = proxy.Close() }()
	if err := s.waitFor(ctx, folder.Certificate()); err != nil {
		return err
	}
	containerd, err := s.startContainerd(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.clean(containerd)) }()
	if err := s.prepare(ctx); err != nil {
		return err
	}
	kubelet, err := s.startKubelet()
	if err != nil {
		return err
	}
	defer s.stop(kubelet)
	log.Printf("node %s runs at %s", s.plan.Name, s.network.Address())
	if err := os.WriteFile(folder.Ready(), nil, 0o600); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.ended:
		return err
	}
}

// program is a process of the node.
type program struct {
	name    string
	command *exec.Cmd
	done    chan struct{}
}

// start starts a program in the node's network namespace.
func (s *supervisor) start(name, path string, args ...string) (*program, error) {
	output, err := os.OpenFile(s.folder.Path(name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = output.Close() }()
	command := exec.Command("nsenter", append([]string{"--net=/run/netns/" + s.network.Namespace(), "--", path}, args...)...)
	command.Stdout, command.Stderr = output, output
	command.Dir = string(s.folder)
	command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &program{name: name, command: command, done: make(chan struct{})}
	go func() {
		failed := command.Wait()
		close(p.done)
		s.ended <- fmt.Errorf("%s has ended: %w; see %s", name, errors.Join(failed), output.Name())
	}()
	return p, nil
}

// stop ends a program.
func (s *supervisor) stop(p *program) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := p.command.Process.Signal(signal); err != nil {
			return
		}
		select {
		case <-p.done:
			return
		case <-time.After(10 * time.Second):
		}
	}
}

// waitFor waits for a file.
func (s *supervisor) waitFor(ctx context.Context, path string) error {
	return s.until(ctx, path, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// until waits until something is so.
func (s *supervisor) until(ctx context.Context, what string, so func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !so() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		case err := <-s.ended:
			return fmt.Errorf("waiting for %s: %w", what, err)
		case <-ticker.C:
		}
	}
	return nil
}
