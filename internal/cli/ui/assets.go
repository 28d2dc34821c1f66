package ui

import (
	"embed"
	"io/fs"
	"strings"
)

// dist are the files of the page. `make ui` builds them from the folder ui.
//
//go:embed dist
var dist embed.FS

// assets returns the files of the page by their names.
func assets() map[string][]byte {
	files := map[string][]byte{}
	err := fs.WalkDir(dist, "dist", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := dist.ReadFile(path)
		files[strings.TrimPrefix(path, "dist/")] = content
		return err
	})
	if err != nil {
		// The files are a part of this program.
		panic(err)
	}
	return files
}
