// Package model computes what the page of kubectl drover ui shows: plain values, from objects of the cluster, with the operator's own decisions.
// It writes nothing and asks no API server. Texts that others have written are escaped and have a bounded length in each value.
package model

import (
	"context"
	"time"
	"unicode/utf8"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// Objects are the objects that decide about some nodes, as they were read. A kind that the cluster does not serve, or that the user may not read, has
// none.
type Objects struct {
	Nodes    []*corev1.Node
	Groups   []*drover.NodeGroup
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	// Maintenances has the NodeMaintenances of both API groups. TypeMeta names the group.
	Maintenances []*medik8s.NodeMaintenance
	Runs         []*mutex.MutexRunConfig
	Leases       []*coordinationv1.Lease
	// NoSets is why Machines or MachineSets could not be read; nil where they were.
	NoSets error
}

// snapshot returns what decides about Machines, Nodes and NodeGroups.
func (o *Objects) snapshot() *cmdutil.Snapshot {
	return &cmdutil.Snapshot{Groups: o.Groups, Nodes: o.Nodes, Sets: o.Sets, Machines: o.Machines, NoSets: o.NoSets}
}

// assignments are the NodeGroups that Nodes belong to.
type assignments struct {
	groups []*members.Group
	byNode map[string]*members.Assignment
}

// assign decides which NodeGroup each Node belongs to, as the operator does.
func assign(ctx context.Context, snapshot *cmdutil.Snapshot) *assignments {
	membership := snapshot.Membership(ctx)
	out := &assignments{groups: membership.Groups, byNode: make(map[string]*members.Assignment, len(snapshot.Nodes))}
	for _, node := range snapshot.Nodes {
		out.byNode[node.Name] = membership.Of(ctx, node)
	}
	return out
}

// planObjects returns the input of a survey.
func (a *assignments) planObjects(snapshot *cmdutil.Snapshot) plan.Objects {
	out := plan.Objects{Sets: snapshot.Sets, Machines: snapshot.Machines, Nodes: snapshot.NodesByName()}
	if len(snapshot.Groups) > 0 {
		out.GroupLayerOf = func(node *corev1.Node) (layer plan.GroupLayer) {
			if assignment, found := a.byNode[node.Name]; found {
				layer = assignment.GroupLayer(a.groups)
			}
			return layer
		}
	}
	return out
}

// The longest texts, in bytes.
const (
	maxName    = 253
	maxReason  = 128
	maxMessage = 1024
)

// Text returns what others have written with at most so many bytes, without characters that change how the text around them reads.
func Text(text string, most int) string {
	if len(text) > most {
		text = text[:most]
		for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
			text = text[:len(text)-1]
		}
		// The last character may be a part of one.
		if last, size := utf8.DecodeLastRuneInString(text); last == utf8.RuneError && size == 1 {
			text = text[:len(text)-1]
		}
		text += "…"
	}
	return cmdutil.Escape(text)
}

// Stamp returns a time as the documents have it; empty for none, and for one whose year has not four digits (RFC 3339).
func Stamp(at time.Time) string {
	at = at.UTC()
	if at.IsZero() || at.Year() < 0 || at.Year() > 9999 {
		return ""
	}
	return at.Format(time.RFC3339)
}

// machineConditions returns the machine API's conditions as Kubernetes' type.
func machineConditions(conditions []machinev1beta1.Condition) []metav1.Condition {
	out := make([]metav1.Condition, len(conditions))
	for i, c := range conditions {
		out[i] = metav1.Condition{
			Type: string(c.Type), Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message, LastTransitionTime: c.LastTransitionTime,
		}
	}
	return out
}
