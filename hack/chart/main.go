// Command chart writes the parts of charts/drover that are written elsewhere already: the roles, policies and webhooks of config/, the CRDs, the
// alerts and dashboards of monitoring/, and the schema of the values. Run it from the root of the repository: go run ./hack/chart.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-io/drover/hack/tree"
)

// chart is where the chart is.
const chart = "charts/drover"

// generated are the folders and files of the chart that belong to this command alone.
var generated = []string{"templates/generated", "files", "values.schema.json"}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

func run() error {
	files := map[string][]byte{}
	for _, add := range []func(map[string][]byte) error{addTemplates, addCRDs, addMonitoring, addSchema} {
		if err := add(files); err != nil {
			return err
		}
	}
	return tree.Write(chart, generated, files)
}

// addMonitoring copies alerts and dashboards, if there are any.
func addMonitoring(files map[string][]byte) error {
	dashboards, err := filepath.Glob("monitoring/dashboards/*.json")
	if err != nil {
		return err
	}
	for _, path := range append(dashboards, "monitoring/alerts.yaml") {
		text, err := os.ReadFile(path) //nolint:gosec // a file of the repository
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		name, err := filepath.Rel("monitoring", path)
		if err != nil {
			return err
		}
		files["files/"+filepath.ToSlash(name)] = text
	}
	return nil
}

// addCRDs copies the CRDs, and has each say that an uninstall keeps it.
func addCRDs(files map[string][]byte) error {
	for capability, pattern := range map[string]string{
		"machines": "config/crd/*.openshift.io_*.yaml", "maintenance": "config/crd/nodemaintenance/nodemaintenance.*.yaml",
		"upgrade": "config/crd/mutex/openshift-optional.*.yaml",
	} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			return errors.Join(fmt.Errorf("no CRDs at %s", pattern), err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path) //nolint:gosec // a file of the repository
			if err != nil {
				return err
			}
			kept, err := keep(bytes.TrimPrefix(text, []byte("---\n")))
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			files["files/crds/"+capability+"/"+filepath.Base(path)] = kept
		}
	}
	return nil
}

// keep adds the annotation that has Helm leave an object when a release is uninstalled.
func keep(crd []byte) ([]byte, error) {
	const annotations = "\nmetadata:\n  annotations:\n"
	head, tail, found := bytes.Cut(crd, []byte(annotations))
	if !found {
		return nil, errors.New("there are no annotations at the beginning of its metadata")
	}
	return slices.Concat(head, []byte(annotations+"    helm.sh/resource-policy: keep\n"), tail), nil
}
