// Package tree writes folders that belong to a generator alone.
package tree

import (
	"errors"
	"io/fs"
	"os"
	"path"
)

// Write makes the parts of a folder that belong to a generator as the files say, by their paths with slashes: those in these parts that are not
// among the files are removed.
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
		err := fs.WalkDir(root.FS(), part, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist):
				return nil
			case err != nil || entry.IsDir():
				return err
			}
			if _, wanted := files[name]; wanted {
				return nil
			}
			return root.Remove(name)
		})
		if err != nil {
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
