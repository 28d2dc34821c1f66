package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// modulePath is the first line of the go.mod file at the root of the repository.
const modulePath = "module github.com/drover-io/drover"

// Binary returns the path of the drover-sandbox program: the environment variable DROVER_SANDBOX, the running program
// when that is drover-sandbox itself, or bin/drover-sandbox of the repository around the working directory.
func Binary() (string, error) {
	if path := os.Getenv("DROVER_SANDBOX"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("cluster: DROVER_SANDBOX: %w; point it to the program or unset it", err)
		}
		return filepath.Abs(path)
	}
	if self, err := os.Executable(); err == nil && strings.HasPrefix(filepath.Base(self), "drover-sandbox") {
		return self, nil
	}
	root, err := RepositoryRoot()
	if err != nil {
		return "", fmt.Errorf("cluster: finding drover-sandbox: %w; set DROVER_SANDBOX to its path", err)
	}
	path := filepath.Join(root, "bin", "drover-sandbox")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("cluster: %w; run make sandbox (some minutes the first time)", err)
	}
	return path, nil
}

// NodeBinary returns the path of drover-sandbox-node, the program of nodes that are not played by kwok. It is beside drover-sandbox.
func NodeBinary() (string, error) {
	binary, err := Binary()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(binary), "drover-sandbox-node")
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("cluster: %w; run make sandbox-node", err)
	}
	return path, nil
}

// RepositoryRoot returns the folder of Drover's go.mod, which is at or above the working directory.
func RepositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("reading the working directory: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil {
			if first, _, _ := strings.Cut(string(data), "\n"); strings.TrimSpace(first) == modulePath {
				return dir, nil
			}
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod of Drover at or above " + start)
		}
	}
}

// program is an executable and the arguments that come before a component's own.
type program struct {
	path     string
	prefix   []string
	external bool // not part of drover-sandbox
}

// findProgram returns the program of a component. A program of that name in the folder KUBEBUILDER_ASSETS goes first,
// as is the convention of controller-runtime's envtest.
func findProgram(component, binary string) program {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		path, err := filepath.Abs(filepath.Join(assets, component))
		if info, statErr := os.Stat(path); err == nil && statErr == nil && !info.IsDir() {
			return program{path: path, external: true}
		}
	}
	return program{path: binary, prefix: []string{component}}
}

// KubectlCommand returns the command line of kubectl: the one in KUBEBUILDER_ASSETS, or the one in drover-sandbox.
func KubectlCommand() ([]string, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	if found := findProgram("kubectl", binary); found.external {
		return []string{found.path}, nil
	}
	// The plain command kubectl would use the sandbox of the user instead of the caller's KUBECONFIG.
	return []string{binary, "run", "kubectl"}, nil
}
