package stale

import (
	"encoding/json"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// The keys of the upgrade gate.
const (
	runLabel          = "upgrade.drover.dev/run"
	claimAnnotation   = "upgrade.drover.dev/claim"
	nodeAnnotation    = "upgrade.drover.dev/node"
	releaseAnnotation = "upgrade.drover.dev/released"
	versionAnnotation = "upgrade.drover.dev/version"
	versionLabel      = "machineconfiguration.openshift.io/release-image-version"
)

// identityOfJob are the keys that distinguish a run's Jobs.
var identityOfJob = []string{
	nodeAnnotation, versionAnnotation, "upgrade.drover.dev/rule", "upgrade.drover.dev/attempt",
}

// releaseLease asks that the holder has no need of a node's lease any more, where a write deletes the lease or its holder.
func releaseLease(r *Request, before, after *State) error {
	was, is := find(before.Leases, r.Namespace, r.Name), find(after.Leases, r.Namespace, r.Name)
	if was == nil || holder(was) == "" || is != nil && holder(is) == holder(was) {
		return nil
	}
	return before.needs(holder(was), strings.TrimPrefix(r.Name, leasePrefix))
}

// needs returns why a holder still needs the lease of a node.
func (s *State) needs(holder, node string) error {
	switch holder {
	case maintenanceOwner:
		for _, m := range s.Maintenances {
			if m.Node == node && !m.Ending {
				return fmt.Errorf("NodeMaintenance %s still needs it", m.Name)
			}
		}
		return nil
	case machinesHolder:
		if user := s.drains(node); user != "" && find(s.Nodes, "", node) != nil {
			return fmt.Errorf("%s still needs it", user)
		}
		return nil
	case upgradeHolder:
		return s.busy(node)
	case groupsHolder:
		return nil // it may give the lease back at any time: evictions from the node end with it, and begin again with another one
	}
	return fmt.Errorf("%q holds it, not the operator", holder)
}

func holder(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// busy returns what the upgrade gate still does with a node.
func (s *State) busy(name string) error {
	for _, job := range s.Jobs {
		if job.Annotations[nodeAnnotation] == name && !over(job) {
			return fmt.Errorf("job %s still runs", job.Name)
		}
	}
	node := find(s.Nodes, "", name)
	if node != nil && node.Annotations[releaseAnnotation] != "" && node.Labels[versionLabel] != s.desired() {
		return fmt.Errorf("the node is released, and its version %q is not yet %q", node.Labels[versionLabel], s.desired())
	}
	return nil
}

func over(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// desired is the version that the cluster is sent to.
func (s *State) desired() string {
	for _, v := range s.Versions {
		return v.Status.Desired.Version
	}
	return ""
}

func (s *State) run(uid types.UID) *mutex.MutexRunConfig {
	for _, run := range s.Runs {
		if run.UID == uid {
			return run
		}
	}
	return nil
}

// createJob asks that the run goes on, for the version that the cluster is sent to, and that the node had no such Job yet.
func createJob(r *Request, before, after *State) error {
	job := find(after.Jobs, r.Namespace, r.createdName())
	if job == nil {
		return nil
	}
	if run := before.run(types.UID(job.Labels[runLabel])); run == nil || run.DeletionTimestamp != nil {
		return fmt.Errorf("its run %s is gone or being deleted", job.Labels[runLabel])
	}
	if version := job.Annotations[versionAnnotation]; version != before.desired() {
		return fmt.Errorf("it is for version %q, and the cluster is sent to %q", version, before.desired())
	}
	for _, other := range before.Jobs {
		if sameJob(job, other) {
			return fmt.Errorf("job %s has done that", other.Name)
		}
	}
	return nil
}

func sameJob(a, b *batchv1.Job) bool {
	for _, key := range identityOfJob {
		if a.Annotations[key] != b.Annotations[key] {
			return false
		}
	}
	return a.UID != b.UID && a.Labels[runLabel] == b.Labels[runLabel] && a.Labels["upgrade.drover.dev/kind"] == b.Labels["upgrade.drover.dev/kind"]
}

// deleteJob asks that the run is over.
func deleteJob(r *Request, before, _ *State) error {
	job := find(before.Jobs, r.Namespace, r.Name)
	if job == nil || job.DeletionTimestamp != nil {
		return nil
	}
	if run := before.run(types.UID(job.Labels[runLabel])); run != nil && run.DeletionTimestamp == nil {
		return fmt.Errorf("MutexRunConfig %s goes on", run.Name)
	}
	return nil
}

// releasePool asks that all nodes of a run have the version that the cluster is sent to, where a write gives a MachineConfigPool back.
func releasePool(r *Request, before, after *State) error {
	was, is := find(before.Pools, "", r.Name), find(after.Pools, "", r.Name)
	if was == nil || is == nil || was.Annotations[claimAnnotation] == "" || is.Annotations[claimAnnotation] != "" {
		return nil
	}
	claim := struct {
		UID types.UID `json:"uid"`
	}{}
	if err := json.Unmarshal([]byte(was.Annotations[claimAnnotation]), &claim); err != nil {
		return fmt.Errorf("its reservation cannot be read: %w", err)
	}
	run := before.run(claim.UID)
	if run == nil || run.DeletionTimestamp != nil {
		return nil
	}
	for _, node := range before.Nodes {
		if node.Labels[runLabel] == string(run.UID) && node.Labels[versionLabel] != before.desired() {
			return fmt.Errorf("node %s of MutexRunConfig %s has version %q, not yet %q", node.Name, run.Name, node.Labels[versionLabel], before.desired())
		}
	}
	return nil
}
