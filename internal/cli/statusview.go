package cli

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// statusOf makes the document of `status`. Created tells when each MachineSet was made.
func statusOf(survey plan.Survey, created map[types.NamespacedName]time.Time) PoolStatusList {
	list := PoolStatusList{TypeMeta: TypeMeta{APIVersion, "PoolStatusList"}, Items: []PoolStatus{}, Notes: survey.Notes}
	for _, members := range byPool(survey) {
		status := PoolStatus{}
		if pool := members.pool; pool != nil {
			status = PoolStatus{
				Namespace: pool.Key.Namespace, Name: pool.Key.Name, Generation: pool.Generation, Policy: pool.Policy,
				Paused: pool.Paused, Problems: pool.Problems, Declared: map[ownership.Kind]int{},
			}
			for _, kind := range ownership.Kinds {
				status.Declared[kind] = len(pool.Desired[kind])
			}
			if at, ok := created[pool.Key]; ok {
				status.Created = &at
			}
		}
		for _, item := range members.items {
			status.Summary.count(item)
		}
		list.Items = append(list.Items, status)
	}
	return list
}

func createdAt(objects plan.Objects) map[types.NamespacedName]time.Time {
	created := make(map[types.NamespacedName]time.Time, len(objects.Sets))
	for _, set := range objects.Sets {
		created[types.NamespacedName{Namespace: set.Namespace, Name: set.Name}] = set.CreationTimestamp.Time
	}
	return created
}

// unfinished counts the Machines for which something is still to be written, or which have no Node yet.
func (l PoolStatusList) unfinished() int {
	number := 0
	for _, pool := range l.Items {
		number += pool.unfinished()
	}
	return number
}

func (p PoolStatus) unfinished() int { return max(p.Summary.Pending, p.Summary.ToWrite) }

// title is the name of a pool as the table shows it.
func (p PoolStatus) title() string {
	if p.Name == "" {
		return "<none>"
	}
	return p.Name
}
