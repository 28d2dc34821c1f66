package harness

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/watch"
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
	watcher, err := client.NewWithWatch(m.Cluster.Admin(), client.Options{Scheme: m.Client.Scheme()})
	if err != nil {
		m.Fatal(err)
	}
	var list client.ObjectList = &medik8s.NodeMaintenanceList{}
	if m.Kubevirt {
		list = &kubevirt.NodeMaintenanceList{}
	}
	ctx, cancel := context.WithCancel(context.Background())
	stream, err := watcher.Watch(ctx, list, client.MatchingFields{"metadata.name": m.Name})
	if err != nil {
		cancel()
		m.Fatalf("watching NodeMaintenance %s: %v", m.Name, err)
	}
	h, done := &History{}, make(chan struct{})
	go func() {
		defer close(done)
		h.read(stream)
	}()
	m.Cleanup(func() {
		cancel()
		stream.Stop()
		<-done
	})
	return h
}

func (h *History) read(stream watch.Interface) {
	for event := range stream.ResultChan() {
		if object, ok := event.Object.(client.Object); ok && event.Type != watch.Deleted {
			h.mu.Lock()
			h.all = append(h.all, statusOf(object))
			h.mu.Unlock()
		}
	}
}

// All lists what has been seen so far.
func (h *History) All() []medik8s.NodeMaintenanceStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}
