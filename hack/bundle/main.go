// Command bundle writes the bundle for the Operator Lifecycle Manager from the manifests in config/: bundle/ with the version 0.0.0-devel, or another
// folder with that of a release. Run it from the root of the repository: go run ./hack/bundle.
package main

import (
	"flag"
	"fmt"
	"os"

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
	files := map[string]any{
		"manifests/drover.clusterserviceversion.yaml": csv,
		"metadata/annotations.yaml":                   annotations(),
		"tests/scorecard/config.yaml":                 scorecard(),
		"catalog/drover.yaml":                         catalog(r),
	}
	for name, object := range manifests.beside() {
		files["manifests/"+name] = object
	}
	written := map[string][]byte{dockerfile: []byte(dockerfileText())}
	for name, object := range files {
		if written[name], err = yaml.Marshal(object); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return tree.Write(out, []string{"."}, written)
}
