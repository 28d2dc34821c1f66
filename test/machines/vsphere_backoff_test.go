package machines

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// TestVSphere_Backoff: while what a Machine needs is missing from the vCenter, its condition says what, and Drover writes it at most ten times in two
// minutes.
func TestVSphere_Backoff(t *testing.T) {
	harness.TestAllOnly(t, "it looks on for two minutes; TestCreate_Backoff in provider/vsphere does so with a clock of its own")
	prepared := prepared(t)
	site := prepared.StartVCenter(cluster.VCenterOptions{ClusterID: "cluster-a"})
	w := &vsphereWorld{World: prepared, site: site, faults: &vsphereFaults{}}
	w.Operator(harness.Options{Args: []string{"--controllers=*", vsphereProviders}})
	w.behave(func(b *vcenter.Behavior) {
		b.Clones = map[string]vcenter.CloneBehavior{"nospace": {Fault: "NoDiskSpace"}}
	})
	const missing = "urn:vmomi:InventoryServiceTag:00000000-0000-4000-8000-000000000000:GLOBAL"
	pools, causes := map[string]*harness.Pool{}, map[string]string{
		"nospace": "NoDiskSpace", "nogroup": "could not update VM Group membership", "notag": "attaching the tag " + missing,
	}
	for name, cause := range causes {
		pools[name] = w.pool(name, 1, func(spec *machinev1beta1.VSphereMachineProviderSpec) {
			switch name {
			case "nogroup":
				spec.Workspace.VMGroup = "none"
			case "notag":
				spec.TagIDs = []string{missing}
			}
		})
		shows(pools[name], corev1.ConditionFalse, cause)
	}
	mark := w.AuditMark()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		for name, cause := range causes {
			shows(pools[name], corev1.ConditionFalse, cause)
		}
	}
	writes := map[string]int{}
	for _, event := range w.Writes(mark) {
		writes[event.Name]++
	}
	t.Logf("writes: %v", writes)
	for machine, count := range writes {
		if count > 10 {
			t.Errorf("Machine %s was written %d times", machine, count)
		}
	}
	for _, p := range pools {
		w.leavesNothing(p)
	}
}
