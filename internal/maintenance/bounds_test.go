package maintenance

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// maxObject is what etcd takes of one object, by default.
const maxObject = 1_500_000

// TestStatus_Bounded has a node with more pods than any, each with the longest names and a trouble of its own.
func TestStatus_Bounded(t *testing.T) {
	const pods = 3000
	report := &drain.Report{Total: pods, Exempted: map[drain.Exempt]int{}}
	for i := range pods {
		report.Left = append(report.Left, drain.Left{
			Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%0253d", i), Reason: drain.Webhook,
			Detail: fmt.Sprintf("%05d%s", i, strings.Repeat("d", 5000)),
		})
	}
	for name, drained := range map[string]step{"drain": drained(report), "dry run": planned(report)} {
		t.Run(name, func(t *testing.T) {
			observed := observation{report: report, drain: drained, trouble: strings.Repeat("e", 1<<20)}
			after := observed.status(&medik8s.NodeMaintenanceStatus{}, 1, start)
			if len(after.PendingPods) != maxPendingPods || len(after.PendingPodsRefs) != maxPendingPods || after.PendingPodsOmitted != pods-maxPendingPods {
				t.Errorf("%d and %d pods are named, %d omitted", len(after.PendingPods), len(after.PendingPodsRefs), after.PendingPodsOmitted)
			}
			for _, condition := range after.Conditions {
				if len(condition.Message) > status.MaxMessage {
					t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
				}
			}
			if text, err := json.Marshal(after); err != nil || len(text) > maxObject/2 {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
		})
	}
}

// TestEnd_HostileSpec deletes NodeMaintenances whose spec.drain is older than the schema that refuses it. The end does not read it.
func TestEnd_HostileSpec(t *testing.T) {
	longest, shortest := &metav1.Duration{Duration: math.MaxInt64}, &metav1.Duration{Duration: math.MinInt64}
	for name, hostile := range map[string]*medik8s.DrainSpec{
		"durations that overflow": {Deadline: longest, Force: true, MinimumTime: longest, WaitForVolumes: true, VolumesTimeout: longest},
		"negative durations":      {Deadline: shortest, Force: true, MinimumTime: shortest, VolumesTimeout: shortest},
		"unknown words":           {Order: "?", Unreachable: "?", Honor: []medik8s.Convention{"?"}},
		"a selector that cannot be read": {PodRules: []medik8s.PodRule{{PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "", Operator: "?"}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"))
			s.rest("m")
			update(s, &medik8s.NodeMaintenance{}, "m", func(m *medik8s.NodeMaintenance) { m.Spec.Drain = hostile })
			s.pass("m")
			if status := s.status("m"); status.Phase != medik8s.PhaseRunning {
				t.Errorf("before its end it is %s: %s", status.Phase, status.LastError)
			}
			object := maintenanceOf("m", "n1")
			s.read(object, "m")
			s.givesBack(object)
		})
	}
}

// TestPaused pauses a NodeMaintenance before it begins, in the middle of a drain, and while it is deleted.
func TestPaused(t *testing.T) {
	annotate := func(s *stage, value *string) {
		update(s, &medik8s.NodeMaintenance{}, "m", func(m *medik8s.NodeMaintenance) {
			delete(m.Annotations, paused.Annotation)
			if value != nil {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, paused.Annotation, *value)
			}
		})
	}
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"))
			annotate(s, &value)
			s.rest("m")
			if held(s.node("n1")) == want || (s.evicting() == 0) != want {
				t.Errorf("cordoned %v, %v pods are being evicted", held(s.node("n1")), s.evicting())
			}
		})
	}
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"))
	s.rest("m")
	annotate(s, new(""))
	result := s.rest("m")
	s.expect("m", medik8s.PhaseRunning, "", "Ready=Paused", "Cordoned=Cordoned", "LeaseHeld=Held")
	if !held(s.node("n1")) || s.evicting() != 0 {
		t.Errorf("cordoned %v, %v pods are being evicted", held(s.node("n1")), s.evicting())
	}
	s.clock.Step(result.RequeueAfter)
	if _, writes := s.pass("m"); writes != "update Lease" {
		t.Errorf("when the lease has to be renewed, it wrote %q", writes)
	}
	object := maintenanceOf("m", "n1")
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if !held(s.node("n1")) {
		t.Error("deleted while it is paused, it has released the node")
	}
	annotate(s, nil)
	s.pass("m")
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: "m"}, object); !apierrors.IsNotFound(err) || held(s.node("n1")) || s.holder("n1") != "" {
		t.Errorf("resumed while it is deleted: %v, cordoned %v, lease held by %q", err, held(s.node("n1")), s.holder("n1"))
	}
}
