package upgrade

import (
	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/drover-io/drover/internal/upgrade/plan"
)

// TrimJob keeps whose a Job is and how it ended.
func TrimJob(job *batchv1.Job) {
	labels := map[string]string{}
	for _, key := range []string{plan.LabelRun, plan.LabelKind} {
		if value, there := job.Labels[key]; there {
			labels[key] = value
		}
	}
	job.Labels, job.OwnerReferences = labels, nil
	job.Spec = batchv1.JobSpec{TTLSecondsAfterFinished: job.Spec.TTLSecondsAfterFinished}
	job.Status = batchv1.JobStatus{Conditions: job.Status.Conditions}
}

// TrimPool drops what the machine-config-operator counts. Annotations stay: a patch that adds the first one creates the map, and has to know
// whether there is one. Only administrators of the cluster write these objects.
func TrimPool(pool *mcfgv1.MachineConfigPool) {
	pool.Status = mcfgv1.MachineConfigPoolStatus{}
	pool.Spec.Configuration = mcfgv1.MachineConfigPoolStatusConfiguration{}
}

// TrimClusterVersion keeps which version the cluster aims at and how far it is.
func TrimClusterVersion(version *configv1.ClusterVersion) {
	version.Labels = nil
	version.Spec = configv1.ClusterVersionSpec{DesiredUpdate: version.Spec.DesiredUpdate}
	status := configv1.ClusterVersionStatus{Desired: configv1.Release{Version: version.Status.Desired.Version}}
	if history := version.Status.History; len(history) > 0 {
		status.History = []configv1.UpdateHistory{{State: history[0].State, Version: history[0].Version}}
	}
	version.Status = status
}
