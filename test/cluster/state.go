package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// state is what a folder remembers of its control plane between two processes that drive it.
type state struct {
	// Components are the components to run, in start order.
	Components []string `json:"components"`
	Ports      ports    `json:"ports"`
	// Processes are the processes as last started, whether or not they still run.
	Processes     map[string]processID `json:"processes"`
	UnsafeNoFsync bool                 `json:"unsafeNoFsync,omitempty"`
	MigrationCRDs bool                 `json:"migrationCRDs,omitempty"`
	NoNodeLeases  bool                 `json:"noNodeLeases,omitempty"`
	KubeletLeases bool                 `json:"kubeletLeases,omitempty"`
}

// loadState reads the state of a folder. A folder without one gives an error that is os.ErrNotExist.
func loadState(l layout) (*state, error) {
	data, err := os.ReadFile(l.state())
	if err != nil {
		return nil, fmt.Errorf("cluster: there is no sandbox in %s: %w", l.dir, err)
	}
	s := &state{}
	if err := json.Unmarshal(data, s); err != nil {
		return nil, fmt.Errorf("cluster: reading %s: %w; remove the data folder to start afresh", l.state(), err)
	}
	return s, nil
}

func (s *state) save(l layout) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("cluster: encoding the state: %w", err)
	}
	return WriteFile(l.state(), append(data, '\n'))
}

// prepareState returns the state for a start with the given options. It reuses the state of an earlier run, so that the control plane asks for the
// same ports again. Without an earlier run it returns a new state.
func prepareState(l layout, opts Options) (*state, error) {
	components, err := opts.components()
	if err != nil {
		return nil, err
	}
	s, err := loadState(l)
	if errors.Is(err, os.ErrNotExist) {
		s, err = &state{}, nil
	}
	if err != nil {
		return nil, err
	}
	if s.Processes == nil {
		s.Processes = map[string]processID{}
	}
	if resume := opts.Detach && opts.Components == nil && s.Components != nil; !resume {
		s.Components = components
		s.UnsafeNoFsync, s.MigrationCRDs, s.NoNodeLeases = opts.UnsafeNoFsync, opts.MigrationCRDs, opts.NoNodeLeases
		s.KubeletLeases = opts.KubeletLeases
	}
	running := s.running()
	chosen, err := choosePorts(s.Ports, portNames(s.Components, running))
	if err != nil {
		return nil, err
	}
	if err := s.takePorts(chosen, running); err != nil {
		return nil, err
	}
	return s, nil
}

// takePorts notes the ports of a start. The components that run keep theirs, and know the others by the ports they had.
func (s *state) takePorts(chosen ports, running []string) error {
	for name, port := range chosen {
		if len(running) > 0 && s.Ports[name] != 0 && s.Ports[name] != port {
			return fmt.Errorf("cluster: port %d of %s is taken by another program while %v still run; stop the "+
				"sandbox and start it again to get new ports", s.Ports[name], name, running)
		}
	}
	for _, name := range running {
		chosen[name] = s.Ports[name]
		if name == Etcd {
			chosen[peerPort] = s.Ports[peerPort]
		}
	}
	s.Ports = chosen
	return nil
}

// running returns the components whose processes live.
func (s *state) running() []string {
	var names []string
	for _, name := range startOrder {
		if s.Processes[name].alive() {
			names = append(names, name)
		}
	}
	return names
}

// portNames returns the names of the ports that components need which do not run yet.
func portNames(components, running []string) []string {
	skip := map[string]bool{}
	for _, name := range running {
		skip[name] = true
	}
	var names []string
	for _, name := range components {
		if skip[name] {
			continue
		}
		names = append(names, name)
		if name == Etcd {
			names = append(names, peerPort)
		}
	}
	return names
}

// lockFolder keeps two processes from starting or stopping the same sandbox at once. The lock ends with the process
// or with the returned function.
func lockFolder(l layout) (release func(), err error) {
	file, err := os.OpenFile(filepath.Clean(l.lock()), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cluster: locking the data folder: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("cluster: another process is starting or stopping the sandbox in %s: %w; wait for it",
			l.dir, err)
	}
	return func() { _ = file.Close() }, nil
}
