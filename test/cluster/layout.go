package cluster

import (
	"fmt"
	"os"
	"path/filepath"
)

// layout names the files in the folder of a control plane.
type layout struct{ dir string }

func (l layout) state() string                { return filepath.Join(l.dir, "state.json") }
func (l layout) lock() string                 { return filepath.Join(l.dir, "lock") }
func (l layout) etcdData() string             { return filepath.Join(l.dir, "etcd") }
func (l layout) cert(name string) string      { return filepath.Join(l.dir, "pki", name+".crt") }
func (l layout) key(name string) string       { return filepath.Join(l.dir, "pki", name+".key") }
func (l layout) log(component string) string  { return filepath.Join(l.dir, "logs", component+".log") }
func (l layout) audit() string                { return filepath.Join(l.dir, "logs", "audit.log") }
func (l layout) config(name string) string    { return filepath.Join(l.dir, "config", name) }
func (l layout) kubeconfig(who string) string { return l.config(who + ".kubeconfig") }

// create makes the folders. Only the owner may read them: they hold private keys.
func (l layout) create() error {
	for _, name := range []string{"pki", "logs", "config", "etcd"} {
		if err := os.MkdirAll(filepath.Join(l.dir, name), 0o700); err != nil {
			return fmt.Errorf("cluster: making the data folder: %w; choose a folder that you may write", err)
		}
	}
	return nil
}

// WriteFile replaces a file, for its owner alone to read, in one step, so that a reader never sees half of it.
func WriteFile(path string, data []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("cluster: writing %s: %w", path, err)
	}
	defer func() { _ = os.Remove(temporary.Name()) }()
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Chmod(0o600)
	}
	if closeErr := temporary.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temporary.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("cluster: writing %s: %w", path, err)
	}
	return nil
}
