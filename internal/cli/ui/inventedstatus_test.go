package ui

import "github.com/drover-io/drover/internal/ownership"

// report has the status of each NodeGroup say how many of its Nodes have what is declared.
func (f *fleet) report() {
	for _, group := range f.groups {
		status := &group.Status
		status.ObservedGeneration = group.Generation
		for _, node := range f.nodes {
			if node.Labels["pool"] != group.Name {
				continue
			}
			status.Nodes++
			if node.Annotations[ownership.AnnotationGroupRecord] != "" {
				status.Synced++
			}
		}
		status.Pending = status.Nodes - status.Synced
	}
}
