package realnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	node "github.com/drover-io/drover/test/realnode"
)

// mostNodes is how many nodes a machine may have, of all control planes.
const mostNodes = 250

// run runs a program and returns what it said when it fails.
func run(ctx context.Context, name string, args ...string) error {
	if output, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// takeNetwork makes a network namespace with a link to this machine. If an earlier process of this folder left a namespace, takeNetwork removes it
// first.
func (s *supervisor) takeNetwork(ctx context.Context) error {
	var err error
	if s.network, err = s.folder.Network(); err == nil {
		if err := errors.Join(s.killInside(), s.unmount(), s.dropNetwork()); err != nil {
			return err
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.network.Made = os.Getpid()
	for s.network.Index = 1; s.network.Index <= mostNodes; s.network.Index++ {
		// Creating it reserves it: a second creation of the same name fails.
		if err := run(ctx, "ip", "netns", "add", s.network.Namespace()); err == nil {
			if err := s.wire(ctx); err != nil {
				return errors.Join(err, s.dropNetwork())
			}
			return nil
		} else if !strings.Contains(err.Error(), "File exists") {
			return err
		}
	}
	return fmt.Errorf("this machine has %d nodes already; ip netns list shows their network namespaces", mostNodes)
}

// wire links the network namespace to this machine.
func (s *supervisor) wire(ctx context.Context) error {
	n := s.network
	// Should this process be killed now, the next one of this folder finds what to remove.
	if err := s.folder.SetNetwork(n); err != nil {
		return err
	}
	inside := []string{"-n", n.Namespace()}
	for _, args := range [][]string{
		{"link", "add", n.Link(), "type", "veth", "peer", "name", "eth0", "netns", n.Namespace()},
		{"address", "add", n.Gateway().String() + "/30", "dev", n.Link()},
		{"link", "set", n.Link(), "up"},
		append(inside, "link", "set", "lo", "up"),
		append(inside, "address", "add", n.Address().String()+"/30", "dev", "eth0"),
		append(inside, "link", "set", "eth0", "up"),
		append(inside, "address", "add", node.ServiceAddress+"/32", "dev", "lo"),
		append(inside, "route", "add", "default", "via", n.Gateway().String()),
		// The API server calls webhooks in Pods.
		{"route", "add", n.Pods(), "via", n.Address().String()},
	} {
		if err := run(ctx, "ip", args...); err != nil {
			return err
		}
	}
	return s.inside(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600) })
}

// killInside kills what still runs in the network namespace: an earlier process of this folder was killed and has left it.
func (s *supervisor) killInside() error {
	output, err := exec.Command("ip", "netns", "pids", s.network.Namespace()).Output()
	if err != nil {
		return nil // there is no such namespace
	}
	var failures []error
	for _, text := range strings.Fields(string(output)) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("ip netns pids says %q: %w", text, err)
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			failures = append(failures, fmt.Errorf("ending process %d of an earlier node: %w", pid, err))
		}
	}
	return errors.Join(failures...)
}

// dropNetwork removes the network namespace, and with it the link and the route.
func (s *supervisor) dropNetwork() error {
	err := run(context.Background(), "ip", "netns", "delete", s.network.Namespace())
	if err != nil && !strings.Contains(err.Error(), "No such file") {
		return err
	}
	// The namespace itself lives until the last of its processes is gone; the link is to go now.
	if err := run(context.Background(), "ip", "link", "delete", s.network.Link()); err != nil && !strings.Contains(err.Error(), "Cannot find device") {
		return err
	}
	if err := os.Remove(s.folder.Path("network.json")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// inside calls a function in the node's network namespace. Its thread ends with it, since it stays in that namespace.
func (s *supervisor) inside(call func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- func() error {
			namespace, err := os.Open(filepath.Join("/run/netns", s.network.Namespace()))
			if err != nil {
				return err
			}
			defer func() { _ = namespace.Close() }()
			if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
				return fmt.Errorf("entering network namespace %s: %w", s.network.Namespace(), err)
			}
			return call()
		}()
	}()
	return <-result
}

// serve has the API server answer in the network namespace at the address of its Service, by passing on what comes there.
func (s *supervisor) serve(ctx context.Context) (listener net.Listener, err error) {
	err = s.inside(func() error {
		listener, err = net.Listen("tcp4", node.ServiceAddress+":443")
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening at %s: %w", node.ServiceAddress, err)
	}
	go func() {
		for {
			inner, err := listener.Accept()
			if err != nil {
				if ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
					log.Printf("the way to the API server is closed: %v", err)
				}
				return
			}
			go forward(ctx, inner, s.plan.Server)
		}
	}()
	return listener, nil
}

// forward joins a connection to one to the API server. The end of one direction is passed on, and the other goes on until its own.
func forward(ctx context.Context, inner net.Conn, server string) {
	defer func() { _ = inner.Close() }()
	dialer := net.Dialer{}
	outer, err := dialer.DialContext(ctx, "tcp4", server)
	if err != nil {
		return // the API server may be down for a while; the client tries again
	}
	defer func() { _ = outer.Close() }()
	done := make(chan struct{}, 2)
	for _, pair := range [][2]net.Conn{{inner, outer}, {outer, inner}} {
		go func() {
			_, _ = io.Copy(pair[0], pair[1])
			if half, ok := pair[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
			done <- struct{}{}
		}()
	}
	<-done
	<-done
}
