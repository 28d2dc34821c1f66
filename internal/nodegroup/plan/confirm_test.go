package plan

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// loses has every Node lose a label.
func (r *rollout) loses(key string) {
	for i := range r.nodes {
		r.nodes[i].Labels = map[string]string{key: "a", "kept": "yes"}
		change := &r.nodes[i].Metadata.Change
		change.Write = true
		change.Results = map[ownership.Kind]ownership.Result{ownership.Label: {Remove: []string{key}}}
	}
}

func (r *rollout) input() *Input {
	return &Input{Group: r.group, Declaration: metadataplan.GroupDeclarationOf(r.group), Nodes: r.nodes, Now: r.now}
}

func TestLostLabels(t *testing.T) {
	r := newRollout(3, nil)
	r.loses("rack")
	r.nodes[0].Metadata.Drift = true
	r.nodes[1].Metadata.Change.Results[ownership.Label] = ownership.Result{Set: map[string]string{"new": "b"}}
	lost := r.input().LostLabels()
	if len(lost) != 1 || lost[0].Node != "n2" || strings.Join(lost[0].lost(), " ") != "rack" {
		t.Errorf("lost are %+v", lost)
	}
	if all := r.input().LabelChanges(); len(all) != 3 {
		t.Errorf("changes are %+v", all)
	}
	r.group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: Confirmation([]string{"disk", " rack"}, r.now)}
	if lost := r.input().LostLabels(); len(lost) != 0 {
		t.Errorf("after a confirmation there are %+v", lost)
	}
}

// TestDecide_NeedsConfirm: a label that is required is not taken away before a user confirms that.
func TestDecide_NeedsConfirm(t *testing.T) {
	found := NewUses([]LabelChange{{Node: "n0", Before: map[string]string{"rack": "a"}}, {Node: "n1", Before: map[string]string{"rack": "a"}}})
	found.AddPod(userOf("n0", "shop", "db", term("rack Exists")))
	found.AddVolume(volumeWith("pv1", term("rack In a")))
	for name, c := range map[string]struct {
		uses      *Uses
		confirmed string
		want      string
	}{
		"nothing is lost":                   {nil, "", ""},
		"nothing requires":                  {&Uses{}, "", ""},
		"required":                          {found, "", `these require Nodes as they are: PersistentVolume pv1, Pod shop/db; if that may be, set`},
		"confirmed":                         {found, "rack@2026-07-01T14:00:00+02:00", ""},
		"another confirmed":                 {found, "disk@2026-07-01T12:00:00Z", `to "disk,rack@2026-07-01T12:00:00Z"`},
		"confirmed for the roll-out before": {found, "rack@2026-07-01T11:59:59Z", `to "rack@2026-07-01T12:00:00Z"`},
		"confirmed for those of the future": {found, "disk,rack@2099-01-01T00:00:00Z", `to "rack@2026-07-01T12:00:00Z"`},
		"without a time":                    {found, "rack", `to "rack@2026-07-01T12:00:00Z"`},
		"not a time":                        {found, "rack@today", `to "rack@2026-07-01T12:00:00Z"`},
		"unknown":                           {&Uses{Err: errors.New("forbidden")}, "", `what requires it is unknown: forbidden; if that may be`},
		"a very long list": {
			found, strings.Repeat("x", 20<<10), "these require Nodes as they are",
		},
		"unknown, but confirmed": {&Uses{Err: errors.New("forbidden")}, " rack @2026-07-01T12:00:00Z", ""},
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
	r.group.Annotations = map[string]string{v1alpha1.AnnotationConfirm: Confirmation([]string{"rack"}, r.now.Add(time.Minute))}
	if in := r.input(); in.confirmed()["rack"] {
		t.Error("a time in the future counts")
	}
	r.now = r.now.Add(time.Hour)
	r.decide()
	if in := r.input(); !in.confirmed()["rack"] {
		t.Errorf("it is not confirmed: %+v", r.group.Status.Rollout)
	}
	for _, team := range []string{"red", "blue"} {
		r.group.Spec.Metadata.Labels["team"] = v1alpha1.LabelValue(team)
		if in := r.input(); in.confirmed()["rack"] {
			t.Error("it confirms another roll-out before that has begun")
		}
		r.decide()
		if in := r.input(); in.confirmed()["rack"] {
			t.Error("it confirms another roll-out")
		}
	}
}
