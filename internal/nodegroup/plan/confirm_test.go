package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/status"
)

// loses has every Node lose a label.
func (r *played) loses(key string) {
	for i := range r.nodes {
		r.nodes[i].Labels = map[string]string{key: "a", "kept": "yes"}
		change := &r.nodes[i].Metadata.Change
		change.Write = true
		change.Results = map[ownership.Kind]ownership.Result{ownership.Label: {Remove: []string{key}}}
	}
}

// requiresLabel returns what requires a label of a Node.
func requiresLabel(key string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpExists}},
	}}}
}

// podOn returns the Pod shop/db on a Node that it requires to be as it is.
func podOn(node string, required *corev1.NodeSelector) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}, Spec: corev1.PodSpec{NodeName: node}}
	pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: required}}
	return pod
}

func (r *played) input() *Input {
	return &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: r.nodes, Now: r.now}
}

func TestLostLabels(t *testing.T) {
	r := newRollout(3, nil)
	r.loses("rack")
	r.nodes[0].Metadata.Drift = true
	r.nodes[1].Metadata.Change.Results[ownership.Label] = ownership.Result{Set: map[string]string{"new": "b"}}
	lost := r.input().Rollout().LostLabels()
	if len(lost) != 1 || lost[0].Node != "n2" || lost[0].After["rack"] != "" {
		t.Errorf("lost are %+v", lost)
	}
	if all := r.input().Rollout().LabelChanges(); len(all) != 3 {
		t.Errorf("changes are %+v", all)
	}
	r.group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: rollout.Confirmation([]string{"disk", " rack"}, r.now)}
	if lost := r.input().Rollout().LostLabels(); len(lost) != 0 {
		t.Errorf("after a confirmation there are %+v", lost)
	}
}

// TestDecide_NeedsConfirm: a label that is required is not taken away before a user confirms that.
func TestDecide_NeedsConfirm(t *testing.T) {
	found := rollout.NewUses([]rollout.LabelChange{
		{Node: "n0", Before: map[string]string{"rack": "a"}}, {Node: "n1", Before: map[string]string{"rack": "a"}},
	})
	required := requiresLabel("rack")
	found.AddPod(podOn("n0", required))
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv1"}}
	volume.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: required}
	found.AddVolume(volume)
	for name, c := range map[string]struct {
		uses      *rollout.Uses
		confirmed string
		want      string
	}{
		"nothing is lost":                   {nil, "", ""},
		"nothing requires":                  {&rollout.Uses{}, "", ""},
		"required":                          {found, "", `these require Nodes as they are: PersistentVolume pv1, Pod shop/db; if that may be, set`},
		"confirmed":                         {found, "rack@2026-07-01T14:00:00+02:00", ""},
		"another confirmed":                 {found, "disk@2026-07-01T12:00:00Z", `to "disk,rack@2026-07-01T12:00:00Z"`},
		"confirmed for the roll-out before": {found, "rack@2026-07-01T11:59:59Z", `to "rack@2026-07-01T12:00:00Z"`},
		"confirmed for those of the future": {found, "disk,rack@2099-01-01T00:00:00Z", `to "rack@2026-07-01T12:00:00Z"`},
		"without a time":                    {found, "rack", `to "rack@2026-07-01T12:00:00Z"`},
		"not a time":                        {found, "rack@today", `to "rack@2026-07-01T12:00:00Z"`},
		"unknown":                           {&rollout.Uses{Err: errors.New("forbidden")}, "", `what requires it is unknown: forbidden; if that may be`},
		"a very long list": {
			found, strings.Repeat("x", 20<<10), "these require Nodes as they are",
		},
		"unknown, but confirmed": {&rollout.Uses{Err: errors.New("forbidden")}, " rack @2026-07-01T12:00:00Z", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(2, nil)
			r.loses("rack")
			r.group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: c.confirmed}
			in := r.input()
			in.Uses = c.uses
			d := Decide(in)
			blocked := d.Conditions[2]
			if c.want == "" {
				if d.Unconfirmed != "" || d.Admitted.Len() != 2 || blocked.Reason != ReasonNotBlocked {
					t.Errorf("%+v", d)
				}
				return
			}
			stopped := d.Phase == v1alpha1.PhaseStopped && blocked.Reason == ReasonNeedsConfirm
			if len(blocked.Message) > status.MaxMessage {
				t.Errorf("the message has %d bytes", len(blocked.Message))
			}
			if !strings.Contains(blocked.Message, c.want) || !stopped || d.Admitted.Len() != 0 {
				t.Errorf("%+v", d)
			}
		})
	}
}

// TestConfirmed_OneRollout: a confirmation counts until the roll-out ends, and for no later one, also if that takes the same label away again.
func TestConfirmed_OneRollout(t *testing.T) {
	r := newRollout(2, &v1alpha1.Rollout{MaxInFlight: number(1)})
	r.decide()
	isConfirmed := func() bool {
		in := r.input()
		in.Nodes = []rollout.Node{{Name: "n", Labels: map[string]string{"rack": "a"}, Metadata: metadataplan.GroupDecision{Change: metadataplan.Change{
			Write: true, Results: map[ownership.Kind]ownership.Result{ownership.Label: {Remove: []string{"rack"}}},
		}}}}
		return len(in.Rollout().LostLabels()) == 0
	}
	r.group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: rollout.Confirmation([]string{"rack"}, r.now.Add(time.Minute))}
	if isConfirmed() {
		t.Error("a time in the future counts")
	}
	r.now = r.now.Add(time.Hour)
	r.decide()
	if !isConfirmed() {
		t.Errorf("it is not confirmed: %+v", r.group.Status.Rollout)
	}
	for _, team := range []string{"red", "blue"} {
		r.group.Spec.Metadata.Labels["team"] = v1alpha1.LabelValue(team)
		if isConfirmed() {
			t.Error("it confirms another roll-out before that has begun")
		}
		r.decide()
		if isConfirmed() {
			t.Error("it confirms another roll-out")
		}
	}
}
