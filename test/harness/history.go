package harness

import (
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// History is every status that a NodeMaintenance has had since the watch began.
type History struct {
	mu  sync.Mutex
	all []medik8s.NodeMaintenanceStatus
}

// Follow begins to note the statuses, until the test ends.
func (m *Maintenance) Follow() *History {
	m.Helper()
	var list client.ObjectList = &medik8s.NodeMaintenanceList{}
	if m.Kubevirt {
		list = &kubevirt.NodeMaintenanceList{}
	}
	h := &History{}
	m.follow(list, h.see, client.MatchingFields{"metadata.name": m.Name})
	return h
}

func (h *History) see(object client.Object, gone bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !gone {
		h.all = append(h.all, statusOf(object))
	}
}

// All lists what has been seen so far.
func (h *History) All() []medik8s.NodeMaintenanceStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}
