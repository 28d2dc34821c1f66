// Package plan decides what is done about a NodeMaintenance, and what its status is. It is pure: objects, the time and the answers to requests go
// in, decisions come out. kubectl drover uses it, too.
package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/paused"
)

// Action is what is done to the node.
type Action string

// The actions.
const (
	// None leaves the node alone.
	None Action = ""
	// Preview reports what a drain would do.
	Preview Action = "Preview"
	// RenewLease keeps the lease and does nothing else.
	RenewLease Action = "RenewLease"
	// ReleaseLease leaves the node to the Machine that has cordoned it.
	ReleaseLease Action = "ReleaseLease"
	// Drain acquires the lease, cordons the node and drains it.
	Drain Action = "Drain"
)

// Decision is what is done about a NodeMaintenance that is not deleted.
type Decision struct {
	Action Action
	// Record is the cordon record that Drain continues; nil for none.
	Record *drain.CordonRecord
	// Options are the options of Drain and Preview.
	Options drain.Options
	// Progress is what is known before the action.
	Progress Progress
}

// textOtherFirst is node-maintenance-operator's.
const textOtherFirst = "a NodeMaintenance for node %s already exists: %s"

// Decide decides about a NodeMaintenance that is not deleted.
func Decide(in *Input) Decision {
	d := Decision{Progress: Progress{LeaseErrors: in.Object.GetStatus().ErrorOnLeaseCount}}
	spec := in.Object.GetSpec()
	if paused.Is(in.Object.GetAnnotations()) {
		d.Progress.Paused = true
		if in.OwnsCordonRecord() {
			d.Action = RenewLease // the node stays cordoned
		}
		return d
	}
	if in.Node == nil {
		d.Progress.Failure = Condition{Reason: ReasonNoNode, Message: fmt.Sprintf("nodes %q not found", spec.NodeName)}
		return d
	}
	if first := in.first(); first != nil {
		d.Progress.Failure = Condition{Reason: ReasonOtherFirst, Message: fmt.Sprintf(textOtherFirst, in.Node.Name, first.Name)}
		return d
	}
	options, err := DrainOptions(spec.Drain)
	if err != nil {
		d.Progress.Drain, d.Progress.Problem = Condition{Reason: ReasonBadRules, Message: err.Error()}, err.Error()
		return d
	}
	d.Progress.Ignored = in.Settings.Limits.apply(&options)
	d.Options = options
	if spec.Drain != nil && spec.Drain.DryRun && !in.OwnsCordonRecord() {
		d.Action = Preview
		d.Progress.Requeue.In(delay.Denied)
		return d
	}
	d.decideRecord(in)
	return d
}

// decideRecord decides by the cordon record on the node. Another owner needs the lease for its own work; NodeMaintenances share it as one holder.
func (d *Decision) decideRecord(in *Input) {
	record := in.Record
	switch {
	case in.RecordErr != nil:
		d.Progress.BlockCordon(ReasonBadRecord, in.RecordErr.Error(), 0)
		if meta.IsStatusConditionTrue(in.Object.GetStatus().Conditions, ConditionLeaseHeld) {
			d.Action = RenewLease // the record may be that of this NodeMaintenance
		}
		return
	case record == nil:
		d.Action, d.Record = Drain, in.inherited()
		return
	case in.Owner == Owner{}:
		d.Action, d.Record = Drain, record
		return
	case in.Owner.Invalid:
		d.Progress.BlockCordon(ReasonBadRecord, fmt.Sprintf(
			"annotation %s of node %s names no object that can have cordoned it; remove the annotation when nothing else works on the node: "+
				"by %q, object %q",
			drain.AnnotationCordon, in.Node.Name, record.By, record.Object), 0)
	default:
		// The end of the owner need not be an event here.
		d.Progress.BlockCordon(ReasonOtherOwner, fmt.Sprintf("node %s is cordoned for %s since %s; the maintenance begins when that is over",
			in.Node.Name, in.Owner.Name, record.Since.Format(time.RFC3339)), delay.Denied)
	}
	if !strings.HasPrefix(record.By, RecordPrefix) {
		d.Action = ReleaseLease
	}
}

// RecordToUndo returns the record of what a NodeMaintenance that is deleted undoes on the node; nil for nothing. If the record cannot be read, what
// was there before is not known: then everything that node-maintenance-operator would undo is undone, so that the object can be deleted.
func (in *Input) RecordToUndo() *drain.CordonRecord {
	switch {
	case in.OwnsCordonRecord():
		return in.Record
	case in.Node != nil && in.Record == nil:
		return in.inherited()
	}
	return nil
}

// LeasesToRelease reports whether a NodeMaintenance that is deleted releases the lease and the second lease of its group. All NodeMaintenances have
// the same holder, so the last one of a node releases them.
func (in *Input) LeasesToRelease() (lease, ownLease bool) {
	others := in.others()
	return len(others) == 0 && in.Owner.Name == "", in.OwnLease && !slices.ContainsFunc(others, func(p Peer) bool { return p.OwnLease })
}

// Cordon returns the change that cordons the node, with the taint of an unreachable node if asked for. restores reports whether the change restores
// what another writer has undone.
func (in *Input) Cordon(before *drain.CordonRecord, outOfService bool) (change drain.Change, restores bool, err error) {
	id := recordID(in.Object.GetUID())
	isOwn := before != nil && before.By == id
	// The record has the taint once the node got it.
	given := isOwn && slices.Contains(before.Taints, drain.OutOfServiceTaintID()) && !in.Settings.Limits.NoOutOfService
	change, err = drain.Cordon(in.Node, before, drain.Owner{ID: id}, in.additions(outOfService || given), in.Now)
	return change, change.Patch != nil && isOwn && (given || !outOfService), err
}

// Uncordon returns the change that undoes a record.
func (in *Input) Uncordon(record *drain.CordonRecord) (drain.Change, error) {
	return drain.Uncordon(in.Node, record, in.additions(true))
}
