package healthcheck

import (
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

func TestMetrics_Forget(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	// A series appears with its first use.
	key := types.NamespacedName{Namespace: "n", Name: "c"}
	m.observe(key, 1, true)
	m.wait(key, nil, map[string]int{plan.ReasonLease: 1})
	m.attempts.WithLabelValues(string(plan.ByDeletion), string(status.OK)).Inc()
	m.forget(key)
	families, err := registry.Gather()
	if err != nil || len(families) != 2 {
		t.Errorf("%d families are left of a MachineHealthCheck that is gone, %v", len(families), err)
	}
	if _, err := NewMetrics(registry); err == nil {
		t.Error("the same names can be registered twice")
	}
}

func TestBlockedEvents_AreOfBlockedReasons(t *testing.T) {
	for reason, event := range blockedEvents {
		if !slices.Contains(plan.BlockedReasons, reason) {
			t.Errorf("%s has the event %s, and is no reason of Blocked", reason, event)
		}
	}
}

// The names that users of machine-api-operator rely on.
func TestNames_OfReplacedOperator(t *testing.T) {
	for got, want := range map[string]string{
		EventRestricted: "RemediationRestricted", EventDetected: "DetectedUnhealthy", EventNoController: "SkippedNoController",
		EventDeleted: "MachineDeleted", EventDeletionFailed: "MachineDeletionFailed", EventAnnotationAdded: "ExternalAnnotationAdded",
		EventAnnotationFailed:       "ExternalAnnotationFailed",
		paused.ClusterAPIAnnotation: "cluster.x-k8s.io/paused", plan.StrategyAnnotation: "machine.openshift.io/remediation-strategy",
		plan.ExternalAnnotation: "host.metal3.io/external-remediation", plan.BareMetalStrategy: "external-baremetal",
		plan.SkipAnnotation: "drover.dev/skip-remediation", plan.ClusterAPISkipAnnotation: "cluster.x-k8s.io/skip-remediation",
		plan.ReasonTooMany: "TooManyUnhealthy", plan.ReasonNoTemplate: "ExternalRemediationTemplateNotFound",
		plan.ReasonNoRequest: "ExternalRemediationRequestCreationFailed",
	} {
		if got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
