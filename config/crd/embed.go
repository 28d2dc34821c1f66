// Package crd holds the CustomResourceDefinitions that Drover reads, as YAML files.
//
// The CRDs in autoscaling, mutex, nodegroup and nodemaintenance are generated from api/. The CRDs of machine.openshift.io are copies from
// github.com/openshift/api made by hack/copy-crds.sh; a production OpenShift cluster has them already, so they are for sandboxes and tests.
package crd

import "embed"

// Files holds the CRDs, one per *.yaml file. The root has the CRDs of machine.openshift.io in the Default feature set, as a production cluster has
// them. Folders have the CRDs that Drover brings itself, and the CRD of MachineAutoscalers.
//
//go:embed machine.openshift.io_*.yaml nodemaintenance/nodemaintenance.*.yaml
//go:embed autoscaling/autoscaling.*.yaml mutex/openshift-optional.*.yaml nodegroup/drover.*.yaml
var Files embed.FS

// Migration holds the same CRDs, below the folder "migration", in the feature set that adds the authoritativeAPI
// fields of the migration to Cluster API.
//
//go:embed migration/machine.openshift.io_*.yaml
var Migration embed.FS
