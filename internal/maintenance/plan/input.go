package plan

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/paused"
)

// Object is a NodeMaintenance of either API group.
type Object interface {
	metav1.Object
	runtime.Object
	GetSpec() medik8s.NodeMaintenanceSpec
	GetStatus() *medik8s.NodeMaintenanceStatus
}

// RecordPrefix is the prefix of a NodeMaintenance's UID in drain.CordonRecord.By.
const RecordPrefix = "NodeMaintenance/"

// UncordonPolicy is what happens when another writer uncordons a node in maintenance.
type UncordonPolicy string

// The policies.
const (
	// Repair cordons it again, with an event. The zero value means Repair.
	Repair UncordonPolicy = "Repair"
	// Report stops the drain and reports it in the condition Cordoned.
	Report UncordonPolicy = "Report"
)

// Settings are the options that decisions depend on.
type Settings struct {
	// Uncordon is what happens when another writer uncordons a node in maintenance.
	Uncordon UncordonPolicy
	// LeaseLoss is how long another holder may have the lease before a maintenance that has not succeeded uncordons the node.
	LeaseLoss time.Duration
	// Limits are what an administrator has disabled.
	Limits Limits
}

// Input is what decisions about one NodeMaintenance depend on. They do not change it.
type Input struct {
	// Object is the NodeMaintenance, with what this reconciliation has written.
	Object Object
	// Node is the node; nil if it does not exist.
	Node *corev1.Node
	// Record is the cordon record on the node; nil for none. RecordErr is why it cannot be read.
	Record    *drain.CordonRecord
	RecordErr error
	// Owner is what is known of the owner of the record, if NeedsOwner.
	Owner Owner
	// Peers are the NodeMaintenances that name the node and have not released it, with this one, the oldest first.
	Peers []Peer
	// Additions are the taints and labels of a node in maintenance, in the API group of the NodeMaintenance.
	Additions drain.Additions
	// OwnLease reports whether the API group has a second lease.
	OwnLease bool
	// Settings are the controller's.
	Settings *Settings
	// LossCounted is when a failure of the lease was counted last; zero is not known.
	LossCounted time.Time
	// Now is the time of the decision.
	Now time.Time
}

// Peer is a NodeMaintenance that names a node.
type Peer struct {
	UID types.UID
	// Name is the resource with its API group, and the name.
	Name    string
	Created time.Time
	// Deleting reports whether it is being deleted.
	Deleting bool
	// OwnLease reports whether its API group has a second lease.
	OwnLease bool
}

// Owner is the owner of another cordon record. The zero value is an owner that is gone.
type Owner struct {
	// Name describes an owner that exists or may exist.
	Name string
	// Invalid reports that the record names no object that can exist.
	Invalid bool
}

// recordID returns the owner in the cordon record of a NodeMaintenance.
func recordID(uid types.UID) string { return RecordPrefix + string(uid) }

// OwnsCordonRecord reports whether the cordon record belongs to this NodeMaintenance.
func (in *Input) OwnsCordonRecord() bool {
	return in.Record != nil && in.Record.By == recordID(in.Object.GetUID())
}

// NeedsOwner reports whether the decision depends on the owner of the cordon record. For a NodeMaintenance that is being deleted, it does so only if
// the owner is another NodeMaintenance, because the two share the lease.
func (in *Input) NeedsOwner() bool {
	switch {
	case in.Record == nil, in.OwnsCordonRecord(), paused.Is(in.Object.GetAnnotations()):
		return false
	case in.Object.GetDeletionTimestamp() != nil:
		return strings.HasPrefix(in.Record.By, RecordPrefix) && len(in.others()) == 0
	}
	return in.first() == nil
}

// first returns the NodeMaintenance that the node is maintained for in place of this one: the NodeMaintenance that has cordoned the node, else the
// oldest; nil for none.
func (in *Input) first() *Peer {
	if in.OwnsCordonRecord() || len(in.Peers) == 0 {
		return nil
	}
	i := 0
	if in.Record != nil {
		i = max(slices.IndexFunc(in.Peers, func(p Peer) bool { return recordID(p.UID) == in.Record.By }), 0)
	}
	if first := &in.Peers[i]; first.UID != in.Object.GetUID() {
		return first
	}
	return nil
}

// others returns the NodeMaintenances that need the leases of the node when this one is deleted. Of several that are deleted together, the one with
// the cordon record releases the leases, after it has uncordoned the node.
func (in *Input) others() []Peer {
	return slices.DeleteFunc(slices.Clone(in.Peers), func(p Peer) bool {
		hasRecord := in.Record != nil && recordID(p.UID) == in.Record.By
		return p.UID == in.Object.GetUID() || p.Deleting && !hasRecord
	})
}

// additions returns what the node has in maintenance, with the taint of an unreachable node if asked for.
func (in *Input) additions(outOfService bool) drain.Additions {
	additions := drain.Additions{Taints: slices.Clone(in.Additions.Taints), Labels: in.Additions.Labels}
	if outOfService {
		additions.Taints = append(additions.Taints, drain.OutOfServiceTaint)
	}
	return additions
}

// inherited returns a record for a node that node-maintenance-operator has cordoned; nil if it has not. That operator records nothing, so everything
// that it would undo is undone.
func (in *Input) inherited() *drain.CordonRecord {
	added := in.Additions.Taints[0]
	if !slices.ContainsFunc(in.Node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == added.Key }) {
		return nil
	}
	record := &drain.CordonRecord{
		CordonedByDrover: true, Labels: map[string]*string{},
		Taints: []string{added.Key + ":NoSchedule", corev1.TaintNodeUnschedulable + ":NoSchedule"},
	}
	for key, value := range in.Additions.Labels {
		if in.Node.Labels[key] == value {
			record.Labels[key] = nil
		}
	}
	return record
}
