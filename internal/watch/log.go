package watch

import (
	"context"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// LogConstructor gives each pass of a controller a logger with its work item under a key, and no more: most passes log nothing. An item
// without a namespace is logged by its name.
func LogConstructor(ctx context.Context, controller, key string) func(*reconcile.Request) logr.Logger {
	base := log.FromContext(ctx).WithValues("controller", controller)
	return func(request *reconcile.Request) logr.Logger {
		switch {
		case request == nil:
			return base
		case request.Namespace == "":
			return base.WithValues(key, request.Name)
		}
		return base.WithValues(key, request.NamespacedName)
	}
}
