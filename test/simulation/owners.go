package simulation

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/maintenance"
)

// entry is one thing on an object that has one writer.
type entry struct{ kind, key string }

// nodeChecks remember who has written what.
type nodeChecks struct {
	// scaledDown are the Machines that the controller machineset has deleted, vanished the Machines that are not on the server any more.
	scaledDown, vanished map[types.UID]bool
}

func newNodeChecks() *nodeChecks {
	return &nodeChecks{
		scaledDown: map[types.UID]bool{}, vanished: map[types.UID]bool{},
	}
}

// permitted has the entries that a controller may write, by kind of object. An entry without a key stands for all of its kind.
var permitted = map[string]map[entry]string{
	"Node": {
		{"label", ""}: "metadata", {"annotation", ""}: "metadata", {"taint", ""}: "metadata",
		{"unschedulable", ""}: "machine or maintenance", {"annotation", "drover.dev/cordon"}: "machine or maintenance",
		{"taint", corev1.TaintNodeUnschedulable}: "machine or maintenance",
		{"taint", drain.TaintMedik8s}:            "maintenance", {"label", maintenance.ExcludeLabel}: "maintenance",
	},
	"Machine": {
		{"finalizers", ""}: "machine", {"providerID", ""}: "machine", {"status", ""}: "machine",
		{"label", "machine.openshift.io/instance-type"}: "machine", {"label", "machine.openshift.io/region"}: "machine",
		{"label", "machine.openshift.io/zone"}: "machine", {"annotation", "machine.openshift.io/instance-state"}: "machine",
		{"annotation", "drover.dev/owned-metadata"}: "metadata", {"spec label", ""}: "metadata", {"spec annotation", ""}: "metadata",
		{"spec taint", ""}: "metadata", {"owners", ""}: "machineset",
	},
	"MachineSet":      {{"status", ""}: "machineset", {"annotation", machineapi.ReachedReplicasAnnotation}: "machineset"},
	"NodeGroup":       {{"finalizers", ""}: "node-groups", {"status", ""}: "node-groups or disruption"},
	"NodeMaintenance": {{"finalizers", ""}: "maintenance", {"owners", ""}: "maintenance", {"status", ""}: "maintenance"},
}

// check holds that a controller writes what is its own, and nothing that another writer has put there.
func (n *nodeChecks) check(w *world, wr *write) {
	if wr.before == nil {
		return
	}
	before, after := entries(wr.before), entries(wr.after)
	allowed := permitted[wr.kind.name]
	for _, e := range changed(before, after) {
		owner, exact := allowed[e]
		switch {
		case strings.HasPrefix(e.key, grouped):
			owner = "metadata"
		case !exact:
			owner = allowed[entry{e.kind, ""}]
		}
		if !slices.Contains(strings.Split(owner, " or "), wr.who) {
			_ = w.fault("%s changes %s %q of %s %s, which is %q's", wr.who, e.kind, e.key, wr.kind.name, wr.key, owner)
		}
		if strings.HasPrefix(e.key, foreign) {
			_ = w.fault("%s changes %s %q of %s %s, which is a user's", wr.who, e.kind, e.key, wr.kind.name, wr.key)
		}
	}
}

// changed lists the entries that differ.
func changed(before, after map[entry]any) []entry {
	var out []entry
	for e, value := range after {
		if old, there := before[e]; !there || !apiequality.Semantic.DeepEqual(old, value) {
			out = append(out, e)
		}
	}
	for e := range before {
		if _, there := after[e]; !there {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return strings.Compare(a.kind+" "+a.key, b.kind+" "+b.key) })
	return out
}

// entries takes an object apart. Nothing else is ever written.
func entries(object client.Object) map[entry]any {
	out := map[entry]any{{"finalizers", ""}: object.GetFinalizers(), {"owners", ""}: object.GetOwnerReferences()}
	all(out, "label", object.GetLabels())
	all(out, "annotation", object.GetAnnotations())
	switch typed := object.(type) {
	case *corev1.Node:
		out[entry{"unschedulable", ""}] = typed.Spec.Unschedulable
		taints(out, "taint", typed.Spec.Taints)
		rest := *typed.Spec.DeepCopy()
		rest.Taints, rest.Unschedulable = nil, false
		out[entry{"rest", ""}], out[entry{"status", ""}] = rest, typed.Status
	case *machinev1beta1.Machine:
		rest := *typed.Spec.DeepCopy()
		out[entry{"providerID", ""}], out[entry{"status", ""}] = rest.ProviderID, typed.Status
		all(out, "spec label", rest.ObjectMeta.Labels)
		all(out, "spec annotation", rest.ObjectMeta.Annotations)
		taints(out, "spec taint", rest.Taints)
		rest.ProviderID, rest.ObjectMeta.Labels, rest.ObjectMeta.Annotations, rest.Taints = nil, nil, nil, nil
		out[entry{"rest", ""}] = rest
	case *machinev1beta1.MachineSet, *v1alpha1.NodeGroup, *medik8s.NodeMaintenance:
		out[entry{"rest", ""}], out[entry{"status", ""}] = field(object, "Spec").Interface(), field(object, "Status").Interface()
	}
	return out
}

func all(into map[entry]any, kind string, values map[string]string) {
	for key, value := range values {
		into[entry{kind, key}] = value
	}
}

func taints(into map[entry]any, kind string, list []corev1.Taint) {
	for _, taint := range list {
		into[entry{kind, taint.Key}] = fmt.Sprint(taint.Value, taint.Effect)
	}
}

// declare remembers what a pool has declared.
func (w *world) declare(set *machinev1beta1.MachineSet) {
	for e := range declaredBy(set) {
		w.declared[e] = true
	}
}

// declaredBy is what a pool declares for its Nodes.
func declaredBy(set *machinev1beta1.MachineSet) map[entry]any {
	out := map[entry]any{}
	spec := &set.Spec.Template.Spec
	all(out, "label", spec.ObjectMeta.Labels)
	all(out, "annotation", spec.ObjectMeta.Annotations)
	taints(out, "taint", spec.Taints)
	return out
}
