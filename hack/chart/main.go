// Command chart writes the parts of charts/drover that are written elsewhere already: the roles, policies and webhooks of config/, the CRDs, the
// alerts and dashboards of monitoring/, and the schema of the values. Run it from the root of the repository: go run ./hack/chart.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
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

// addMonitoring copies alerts and dashboards.
func addMonitoring(files map[string][]byte) error {
	unchanged := func(text []byte) ([]byte, error) { return text, nil }
	return errors.Join(
		add(files, "files/dashboards", "monitoring/dashboards/*.json", unchanged), add(files, "files", "monitoring/alerts.yaml", unchanged))
}

// addCRDs copies the CRDs, which an uninstall keeps.
func addCRDs(files map[string][]byte) error {
	return errors.Join(
		add(files, "files/crds/machines", "config/crd/*.openshift.io_*.yaml", keep),
		add(files, "files/crds/nodeGroups", "config/crd/nodegroup/drover.dev_*.yaml", keep),
		add(files, "files/crds/maintenance", "config/crd/nodemaintenance/nodemaintenance.*.yaml", keep),
		add(files, "files/crds/autoscaling", "config/crd/autoscaling/autoscaling.openshift.io_*.yaml", keep),
		add(files, "files/crds/upgrade", "config/crd/mutex/openshift-optional.*.yaml", keep),
	)
}

// add copies the files of a pattern into a folder, with a change.
func add(files map[string][]byte, folder, pattern string, change func([]byte) ([]byte, error)) error {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		return errors.Join(fmt.Errorf("no files at %s", pattern), err)
	}
	for _, name := range paths {
		text, err := os.ReadFile(name) //nolint:gosec // a file of the repository
		if err != nil {
			return err
		}
		if files[path.Join(folder, filepath.Base(name))], err = change(text); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// keep adds the annotation that has Helm leave an object when a release is uninstalled.
func keep(crd []byte) ([]byte, error) {
	crd = bytes.TrimPrefix(crd, []byte("---\n"))
	const annotations = "\nmetadata:\n  annotations:\n"
	head, tail, found := bytes.Cut(crd, []byte(annotations))
	if !found {
		return nil, errors.New("there are no annotations at the beginning of its metadata")
	}
	return slices.Concat(head, []byte(annotations+"    helm.sh/resource-policy: keep\n"), tail), nil
}
