package openshift_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// The CRDs are copies from the module github.com/openshift/api at the version in go.mod.
func TestCRDs_EqualTheModule(t *testing.T) {
	module := harness.OpenShiftAPI(t)
	const config = "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_"
	const machines = "machineconfiguration/v1/zz_generated.crd-manifests/0000_80_machine-config_01_"
	originals := map[string]string{
		"config.openshift.io_clusterversions.yaml":                  config + "clusterversions-Default.crd.yaml",
		"machineconfiguration.openshift.io_machineconfigpools.yaml": machines + "machineconfigpools-SelfManagedHA.crd.yaml",
		"machineconfiguration.openshift.io_machineconfigs.yaml":     machines + "machineconfigs.crd.yaml",
	}
	files, err := openshift.CRDs.ReadDir("crds")
	if err != nil || len(files) != len(originals) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for name, original := range originals {
		ours, err := openshift.CRDs.ReadFile("crds/" + name)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join(module, original))
		if err != nil {
			t.Fatal(err)
		}
		if string(ours) != string(theirs) {
			t.Errorf("crds/%s differs from %s of github.com/openshift/api; copy it", name, original)
		}
	}
}
