package controller

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/expectations"
)

func TestBegin(t *testing.T) {
	cache := fake.NewClientBuilder().WithObjects(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "read", UID: "uid-of-read", ResourceVersion: "5"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "written", UID: "uid-of-written", ResourceVersion: "5"}},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "broken" {
				return errors.New("no cache")
			}
			return c.Get(ctx, key, object, options...)
		},
	}).Build()
	versions := expectations.NewObjects(nil, clock.RealClock{})
	versions.Expect("uid-of-written", expectations.Write{Version: "6"})
	for name, want := range map[string]struct {
		goesOn, kept bool
		after        bool
		err          string
	}{
		"read":    {goesOn: true, kept: true},
		"written": {kept: true, after: true},
		"gone":    {},
		"broken":  {kept: true, err: "reading Node broken: no cache"},
	} {
		t.Run(name, func(t *testing.T) {
			key, states := types.NamespacedName{Name: name}, NewStates(func() *int { return new(int) }, nil)
			states.Get(key, types.UID("uid-of-"+name))
			node := &corev1.Node{}
			goesOn, result, err := Begin(t.Context(), cache, key, node, versions, states, NewConflicts())
			if goesOn != want.goesOn || (states.Len() == 1) != want.kept || (result.RequeueAfter == CatchUp) != want.after {
				t.Errorf("goes on %t, %d states, %+v", goesOn, states.Len(), result)
			}
			if (err == nil) != (want.err == "") || err != nil && err.Error() != want.err {
				t.Errorf("%v, want %q", err, want.err)
			}
			if goesOn && node.Name != name {
				t.Errorf("read %q", node.Name)
			}
		})
	}
}
