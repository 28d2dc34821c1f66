// Package crd holds the CustomResourceDefinitions that Drover reads, as YAML files.
//
// Those of NodeMaintenance are generated from api/. Those of machine.openshift.io are copies from github.com/openshift/api made by
// hack/copy-crds.sh; a production OpenShift cluster has them already, so they are for sandboxes and tests.
package crd

import "embed"

// Files holds the CRDs, those of machine.openshift.io in the Default feature set, as a production cluster has them, one per
// *.yaml file at the root; below folders with the names of capabilities those that Drover brings itself, and that of MachineAutoscalers.
//
//go:embed machine.openshift.io_*.yaml nodemaintenance/nodemaintenance.*.yaml
//go:embed autoscaling/autoscaling.*.yaml mutex/openshift-optional.*.yaml nodegroup/drover.*.yaml
var Files embed.FS

// Migration holds the same CRDs, below the folder "migration", in the feature set that adds the authoritativeAPI
// fields of the migration to Cluster API.
//
//go:embed migration/machine.openshift.io_*.yaml
var Migration embed.FS
