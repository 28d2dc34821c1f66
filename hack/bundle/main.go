// Command bundle writes the bundle for the Operator Lifecycle Manager from the manifests in config/: bundle/ with the version 0.0.0, or another
// folder with that of a release. Run it from the root of the repository: go run ./hack/bundle.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// release is what is different from one release to the next.
type release struct {
	version, image, bundleImage, replaces, created string
}

func main() {
	r := release{}
	out := flag.String("out", "bundle", "folder to write")
	flag.StringVar(&r.version, "version", "0.0.0", "version of the bundle, without v")
	flag.StringVar(&r.image, "image", "", "image of the operator (default that of config/manager)")
	flag.StringVar(&r.bundleImage, "bundle-image", "ghcr.io/drover-io/drover-bundle", "image of the bundle, without tag")
	flag.StringVar(&r.replaces, "replaces", "", "version of the bundle that this one replaces")
	flag.StringVar(&r.created, "created", "", "time of the release, for the annotation createdAt")
	flag.Parse()
	if err := run(*out, r); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

func run(out string, r release) error {
	manifests, err := load()
	if err != nil {
		return err
	}
	csv, err := clusterServiceVersion(manifests, r)
	if err != nil {
		return err
	}
	files := map[string]any{
		"manifests/drover.clusterserviceversion.yaml": csv,
		"metadata/annotations.yaml":                   annotations(),
		"tests/scorecard/config.yaml":                 scorecard(),
		"catalog/drover.yaml":                         catalog(r),
	}
	for name, object := range manifests.beside() {
		files["manifests/"+name] = object
	}
	return write(out, files)
}

// write writes the files, and removes those of an earlier time.
func write(out string, files map[string]any) error {
	err := filepath.WalkDir(out, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil || entry.IsDir() || entry.Name() == dockerfile:
			return err
		}
		name, err := filepath.Rel(out, path)
		if _, wanted := files[filepath.ToSlash(name)]; err != nil || wanted {
			return err
		}
		return os.Remove(path)
	})
	if err != nil {
		return err
	}
	for name, object := range files {
		text, err := yaml.Marshal(object)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := place(filepath.Join(out, filepath.FromSlash(name)), text); err != nil {
			return err
		}
	}
	return place(filepath.Join(out, dockerfile), []byte(dockerfileText()))
}

func place(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // folders of the repository are for everybody to read
		return err
	}
	return os.WriteFile(path, text, 0o644) //nolint:gosec // files of the repository are for everybody to read
}
