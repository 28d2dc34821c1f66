package controller

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/expectations"
)

// Begin reads an object at the beginning of its reconciliation, and reports whether the reconciliation goes on. Otherwise the reconciliation returns
// the result and the error: the object cannot be read, it is gone, or the cache does not show Drover's own last write of it yet. What is kept of an
// object that is gone is forgotten. versions is nil for a controller that may act on an older version.
func Begin(
	ctx context.Context, cache client.Reader, key types.NamespacedName, object client.Object, versions *expectations.Objects,
	kept ...interface {
		Forget(key types.NamespacedName)
	},
) (goesOn bool, result reconcile.Result, err error) {
	err = cache.Get(ctx, key, object)
	switch {
	case apierrors.IsNotFound(err):
		for _, k := range kept {
			k.Forget(key)
		}
		return false, reconcile.Result{}, nil
	case err != nil:
		kind := reflect.TypeOf(object).Elem().Name()
		return false, reconcile.Result{}, fmt.Errorf("reading %s %s: %w", kind, strings.TrimPrefix(key.String(), "/"), err)
	case versions != nil && versions.Pending(ctx, object):
		return false, reconcile.Result{RequeueAfter: CatchUp}, nil
	}
	return true, reconcile.Result{}, nil
}
