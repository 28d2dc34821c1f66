package plan

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestValidateTemplateKind(t *testing.T) {
	valid := []string{
		"RebootTemplate.example.com", "XTemplate.infrastructure.cluster.x-k8s.io", "YTemplate.poison-pill.medik8s.io", "ZTemplate.notk8s.io",
	}
	for _, kind := range slices.Concat(DefaultTemplateKinds(), valid) {
		if err := ValidateTemplateKind(kind); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	for _, kind := range []string{
		"", "Template.example.com", "Reboot.example.com", "RebootTemplate", "RebootTemplate.", "*Template.example.com", "RebootTemplate.*.com",
		"NodeTemplate",
		"JobTemplate.batch", "DeploymentTemplate.apps", "LeaseTemplate.coordination.k8s.io", "SnapshotTemplate.snapshot.storage.k8s.io",
		"XTemplate.node.kubernetes.io", "MachineTemplate.machine.openshift.io", "XTemplate.config.openshift.io", "XTemplate.openshift.io",
		"MachineTemplate.cluster.x-k8s.io", "NodeGroupTemplate.drover.dev", "XTemplate.kwok.provider.drover.dev",
		"NodeMaintenanceTemplate.nodemaintenance.medik8s.io", "NodeMaintenanceTemplate.nodemaintenance.kubevirt.io",
		"MutexRuleTemplate.openshift-optional.skrzypek.io",
	} {
		if ValidateTemplateKind(kind) == nil {
			t.Errorf("%q is valid", kind)
		}
	}
}

// TestRequestKind_Version: only what is a version becomes part of a path of the API server.
func TestRequestKind_Version(t *testing.T) {
	const group, kind = "self-node-remediation.medik8s.io", "SelfNodeRemediationTemplate"
	for version, valid := range map[string]bool{
		"v1alpha1": true, "v1": true, "v2beta10": true, "..": false, "": false, "v1/../v2": false, "V1": false, "v": false, "v1 ": false, "v1alpha": false,
	} {
		_, failure := RequestKind(&corev1.ObjectReference{APIVersion: group + "/" + version, Kind: kind, Name: "a"}, DefaultTemplateKinds())
		if (failure.Reason == "") != valid {
			t.Errorf("version %q: %+v", version, failure)
		}
	}
}
