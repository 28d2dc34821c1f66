// Package tree writes folders that belong to a generator alone.
package tree

import (
	"os"
	"path"
)

// Write replaces the parts of a folder that belong to a generator by files. Their paths have slashes.
func Write(folder string, parts []string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // folders of the repository are for everybody to read
		return err
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, part := range parts {
		if err := root.RemoveAll(part); err != nil {
			return err
		}
	}
	for name, text := range files {
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if err := root.WriteFile(name, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
