package capacity

import (
	"context"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/watch"
)

// sources are the controller's watches, each with its reason.
func sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A template changes, a user changes an annotation, or another API takes the MachineSet over.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, initial bool) {
				priority := watch.PriorityHigh
				if initial {
					priority = watch.PriorityStartup
				}
				queue.Add(priority, watch.RequestFor(set))
			},
			Updated: func(_ context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
				if before.UID != after.UID || before.Generation != after.Generation || !maps.Equal(before.Annotations, after.Annotations) ||
					before.Status.AuthoritativeAPI != after.Status.AuthoritativeAPI {
					queue.Add(watch.PriorityNormal, watch.RequestFor(after))
				}
			},
			Deleted: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
				queue.Add(watch.PriorityNormal, watch.RequestFor(set))
			},
		}),
	}
}
