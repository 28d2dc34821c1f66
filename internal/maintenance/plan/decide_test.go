package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/paused"
)

func TestDecide(t *testing.T) {
	type change = func(*Input, *medik8s.NodeMaintenance)
	drained := func(spec medik8s.DrainSpec) change {
		return func(_ *Input, object *medik8s.NodeMaintenance) { object.Spec.Drain = &spec }
	}
	pause := func(_ *Input, object *medik8s.NodeMaintenance) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, paused.Annotation, "")
	}
	older := func(in *Input, _ *medik8s.NodeMaintenance) {
		in.Peers = append([]Peer{{UID: "older", Name: "older"}}, in.Peers...)
	}
	younger := func(in *Input, _ *medik8s.NodeMaintenance) {
		in.Peers = append(in.Peers, Peer{UID: "younger", Name: "younger"})
	}
	unreadable := func(in *Input, _ *medik8s.NodeMaintenance) { in.RecordErr = errors.New("unreadable") }
	owner := func(owner Owner) change { return func(in *Input, _ *medik8s.NodeMaintenance) { in.Owner = owner } }
	for name, c := range map[string]struct {
		changes []change
		action  Action
		// reason is the reason of Ready before the action; empty for none.
		reason  string
		message string
		record  string
		retry   time.Duration
	}{
		"nothing in the way: drain": {action: Drain},
		"own record: drain":         {changes: []change{withRecord("NodeMaintenance/own")}, action: Drain, record: "NodeMaintenance/own"},
		"no node: failed": {
			changes: []change{func(in *Input, _ *medik8s.NodeMaintenance) { in.Node = nil }}, reason: ReasonNoNode, message: `nodes "n1" not found`,
		},
		"an older one: failed":            {changes: []change{older}, reason: ReasonOtherFirst, message: "already exists: older"},
		"an older one, own record: drain": {changes: []change{older, withRecord("NodeMaintenance/own")}, action: Drain, record: "NodeMaintenance/own"},
		"a younger one: drain":            {changes: []change{younger}, action: Drain},
		"a younger one with the record: fails": {
			changes: []change{younger, withRecord("NodeMaintenance/younger")}, reason: ReasonOtherFirst, message: "younger",
		},
		"invalid rules: nothing": {
			changes: []change{drained(medik8s.DrainSpec{PodRules: []medik8s.PodRule{{PodSelector: &metav1.LabelSelector{
				MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}},
			}}}})}, reason: ReasonBadRules, message: "podRules[0]",
		},
		"dry run: preview": {changes: []change{drained(medik8s.DrainSpec{DryRun: true})}, action: Preview, retry: delay.Denied},
		"dry run of a cordoned node: drain": {
			changes: []change{drained(medik8s.DrainSpec{DryRun: true}), withRecord("NodeMaintenance/own")}, action: Drain, record: "NodeMaintenance/own",
		},
		"record unreadable, no lease: nothing": {changes: []change{unreadable}, reason: ReasonBadRecord, message: "unreadable"},
		"record unreadable, lease held: renewed": {
			changes: []change{unreadable, withLease(ReasonHeld, 0)}, action: RenewLease, reason: ReasonBadRecord, message: "unreadable",
		},
		"record of an owner that is gone: taken over": {changes: []change{withRecord("Machine/x")}, action: Drain, record: "Machine/x"},
		"record of a Machine: lease released": {
			changes: []change{withRecord("Machine/x"), owner(Owner{Name: "Machine ns/x"})}, action: ReleaseLease, reason: ReasonOtherOwner,
			message: "is cordoned for Machine ns/x since 2026-07-01T12:00:00Z", retry: delay.Denied,
		},
		"record of a NodeMaintenance of another group: lease kept": {
			changes: []change{withRecord("NodeMaintenance/x"), owner(Owner{Name: "x"})}, reason: ReasonOtherOwner, message: "x", retry: delay.Denied,
		},
		"record of nothing: lease released": {
			changes: []change{withRecord("?"), owner(Owner{Invalid: true})}, action: ReleaseLease, reason: ReasonBadRecord, message: "names no object",
		},
		"paused before the start: nothing":  {changes: []change{pause}},
		"paused with a node: lease renewed": {changes: []change{pause, withRecord("NodeMaintenance/own")}, action: RenewLease},
	} {
		t.Run(name, func(t *testing.T) {
			d := Decide(newInput(c.changes...))
			if record := d.Record; d.Action != c.action || (record == nil) != (c.record == "") || record != nil && record.By != c.record {
				t.Errorf("%s with the record %+v, want %s with %q", d.Action, record, c.action, c.record)
			}
			ready := d.Progress.conditions()[ConditionReady]
			if c.reason == "" && ready.Reason != ReasonReady || c.reason != "" && (ready.Reason != c.reason || !strings.Contains(ready.Message, c.message)) {
				t.Errorf("Ready is %+v, want %s, %q", ready, c.reason, c.message)
			}
			if d.Progress.Requeue.Delay() != c.retry {
				t.Errorf("again in %s, want %s", d.Progress.Requeue.Delay(), c.retry)
			}
		})
	}
}

func TestDecide_Limits(t *testing.T) {
	d := Decide(newInput(func(in *Input, object *medik8s.NodeMaintenance) {
		in.Settings.Limits = Limits{NoForce: true, NoOutOfService: true}
		object.Spec.Drain = &medik8s.DrainSpec{Force: true, Unreachable: medik8s.UnreachableOutOfService}
	}))
	if d.Options.Force || d.Options.Unreachable != drain.Wait || !strings.Contains(d.Progress.Ignored, textNoForce) ||
		!strings.Contains(d.Progress.Ignored, textNoOutOfService) {
		t.Errorf("%+v, ignored %q", d.Options, d.Progress.Ignored)
	}
}

func TestDecide_ContinuesNodeMaintenanceOperator(t *testing.T) {
	d := Decide(newInput(func(in *Input, _ *medik8s.NodeMaintenance) {
		in.Node.Spec.Taints = []corev1.Taint{{Key: drain.TaintMedik8s, Effect: corev1.TaintEffectNoSchedule}}
		in.Node.Labels = map[string]string{drain.LabelExclude: "true"}
	}))
	if d.Record == nil || !d.Record.CordonedByDrover || len(d.Record.Taints) != 2 || len(d.Record.Labels) != 1 {
		t.Errorf("the record is %+v", d.Record)
	}
}

func TestInput_Release(t *testing.T) {
	other := Peer{UID: "other", Name: "other"}
	deleting, ofKubevirt := other, other
	deleting.Deleting, ofKubevirt.OwnLease = true, true
	for name, c := range map[string]struct {
		record          string
		peers           []Peer
		owner           Owner
		noNode          bool
		undo            bool
		lease, ownLease bool
	}{
		"the only one":                                 {record: "NodeMaintenance/own", undo: true, lease: true, ownLease: true},
		"no record":                                    {lease: true, ownLease: true},
		"no node":                                      {noNode: true, lease: true, ownLease: true},
		"record of a Machine":                          {record: "Machine/x", lease: true, ownLease: true},
		"record of a group that is not served":         {record: "NodeMaintenance/x", owner: Owner{Name: "x"}, ownLease: true},
		"another one waits":                            {record: "NodeMaintenance/own", peers: []Peer{other}, undo: true, ownLease: true},
		"another one with an own lease waits":          {record: "NodeMaintenance/own", peers: []Peer{ofKubevirt}, undo: true},
		"another one is deleted, this has the record":  {record: "NodeMaintenance/own", peers: []Peer{deleting}, undo: true, lease: true, ownLease: true},
		"another one is deleted, which has the record": {record: "NodeMaintenance/other", peers: []Peer{deleting}, ownLease: true},
		"another one is deleted, neither has a record": {peers: []Peer{deleting}, lease: true, ownLease: true},
	} {
		t.Run(name, func(t *testing.T) {
			in := newInput(func(in *Input, _ *medik8s.NodeMaintenance) {
				in.Peers, in.Owner, in.OwnLease = append(in.Peers, c.peers...), c.owner, true
				if c.noNode {
					in.Node = nil
				}
			})
			if c.record != "" {
				withRecord(c.record)(in, nil)
			}
			record := in.RecordToUndo()
			if lease, ownLease := in.LeasesToRelease(); (record != nil) != c.undo || lease != c.lease || ownLease != c.ownLease {
				t.Errorf("undoes %+v, releases the lease %v, the second one %v", record, lease, ownLease)
			}
		})
	}
}

func TestInput_NeedsOwner(t *testing.T) {
	for name, c := range map[string]struct {
		record         string
		deleted, other bool
		want           bool
	}{
		"no record":                              {},
		"own record":                             {record: "NodeMaintenance/own"},
		"record of a Machine":                    {record: "Machine/x", want: true},
		"record of a Machine, another one first": {record: "Machine/x", other: true},
		"deleted, record of a Machine":           {record: "Machine/x", deleted: true},
		"deleted, record of a NodeMaintenance":   {record: "NodeMaintenance/x", deleted: true, want: true},
		"deleted, another one needs the leases":  {record: "NodeMaintenance/x", deleted: true, other: true},
	} {
		in := newInput(func(in *Input, object *medik8s.NodeMaintenance) {
			if c.deleted {
				object.DeletionTimestamp = &metav1.Time{Time: start}
			}
			if c.other {
				in.Peers = append([]Peer{{UID: "other"}}, in.Peers...)
			}
		})
		if c.record != "" {
			withRecord(c.record)(in, nil)
		}
		if got := in.NeedsOwner(); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
