package maintenance

import (
	"strings"
	"testing"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

func TestDrained_MaintenanceFails(t *testing.T) {
	failed := &medik8s.NodeMaintenance{
		Spec:   medik8s.NodeMaintenanceSpec{NodeName: "n2"},
		Status: medik8s.NodeMaintenanceStatus{Phase: medik8s.PhaseFailed, LastError: "no lease"},
	}
	for node, want := range map[string]string{"n2": "no lease", "other": "is gone"} {
		if _, done, err := drained([]*medik8s.NodeMaintenance{failed}, []string{node}); done || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: done %t, %v", node, done, err)
		}
	}
}
