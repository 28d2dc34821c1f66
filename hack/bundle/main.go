// Command bundle writes the bundle for the Operator Lifecycle Manager from the manifests in config/. By default it writes the version 0.0.0-devel to
// bundle/; for a release it writes the release's version to another folder. Run it from the root of the repository: go run ./hack/bundle.
package main

import (
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/hack/tree"
)

// release is what is different from one release to the next.
type release struct {
	version, image, bundleImage, replaces, created string
}

func main() {
	r := release{}
	out := flag.String("out", "bundle", "folder to write")
	flag.StringVar(&r.version, "version", "0.0.0-devel", "version of the bundle, without v")
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
	objects := map[string]any{"manifests/drover.clusterserviceversion.yaml": csv.Object, "catalog/drover.yaml": catalog(r)}
	for name, object := range manifests.beside() {
		objects["manifests/"+name] = object
	}
	written, err := fixed()
	if err != nil {
		return err
	}
	for name, object := range objects {
		if written[name], err = yaml.Marshal(object); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tree.Write(out, []string{"bundle.Dockerfile", "catalog", "manifests", "metadata", "tests"}, written)
}

//go:embed files
var files embed.FS

// fixed returns the files that are the same in every bundle.
func fixed() (map[string][]byte, error) {
	all := map[string][]byte{}
	err := fs.WalkDir(files, "files", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		all[strings.TrimPrefix(path, "files/")], err = files.ReadFile(path)
		return err
	})
	return all, err
}

// catalog is a template of a catalog with this bundle in it: `opm alpha render-template basic` makes a catalog of it.
func catalog(r release) object {
	const channel = "stable"
	entry := object{"name": "drover.v" + r.version}
	if r.replaces != "" {
		entry["replaces"] = "drover.v" + r.replaces
	}
	return object{"schema": "olm.template.basic", "entries": []any{
		object{"schema": "olm.package", "name": "drover", "defaultChannel": channel},
		object{"schema": "olm.channel", "package": "drover", "name": channel, "entries": []any{entry}},
		object{"schema": "olm.bundle", "image": r.bundleImage + ":v" + r.version},
	}}
}
