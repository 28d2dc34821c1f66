package openshift

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func clientOf(t *testing.T, functions interceptor.Funcs, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := configv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&configv1.ClusterOperator{}).
		WithInterceptorFuncs(functions).Build()
}

var errNoKind = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "config.openshift.io"}}

func failing(err error) interceptor.Funcs {
	return interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return err
		},
	}
}

func TestClusterName(t *testing.T) {
	object := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	object.Status.InfrastructureName = "blue-x7k2p"
	for name, c := range map[string]struct {
		reader client.Reader
		want   string
		fails  bool
	}{
		"there":    {clientOf(t, interceptor.Funcs{}, object), "blue-x7k2p", false},
		"absent":   {clientOf(t, interceptor.Funcs{}), "", false},
		"no kind":  {clientOf(t, failing(errNoKind)), "", false},
		"refused":  {clientOf(t, failing(apierrors.NewForbidden(configv1.Resource("infrastructures"), "cluster", nil))), "", true},
		"an error": {clientOf(t, failing(errors.New("no"))), "", true},
	} {
		if got, err := ClusterName(t.Context(), c.reader); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestTheReportIsWrittenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		writes := 0
		cluster := clientOf(t, interceptor.Funcs{
			SubResourcePatch: func(
				ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
			) error {
				writes++
				return c.SubResource(name).Patch(ctx, object, patch, options...)
			},
		})
		report := &Report{Client: cluster, Version: "4.20.1", Namespace: "openshift-machine-api"}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = report.Run(ctx) }()
		synctest.Wait()
		read := func() *configv1.ClusterOperator {
			object := &configv1.ClusterOperator{}
			if err := cluster.Get(ctx, types.NamespacedName{Name: OperatorName}, object); err != nil {
				t.Fatal(err)
			}
			return object
		}
		first := read()
		if first.Status.Versions[0].Version != "4.20.1" || len(first.Status.Conditions) != 4 || len(first.Status.RelatedObjects) != 4 || writes != 1 {
			t.Errorf("%d writes, %+v", writes, first.Status)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if writes != 1 {
			t.Errorf("%d writes at rest", writes)
		}
		// A condition of another writer stays, and one of ours that was changed is put right.
		changed := read()
		changed.Status.Conditions[0].Status = configv1.ConditionFalse
		changed.Status.Conditions = append(changed.Status.Conditions, configv1.ClusterOperatorStatusCondition{Type: "Mine", Status: configv1.ConditionTrue})
		if err := cluster.Status().Update(ctx, changed); err != nil {
			t.Fatal(err)
		}
		time.Sleep(lookAgain)
		synctest.Wait()
		again := read().Status.Conditions
		since := first.Status.Conditions[0].LastTransitionTime.Time
		if writes != 2 || len(again) != 5 || again[0].Status != configv1.ConditionTrue || !again[0].LastTransitionTime.After(since) {
			t.Errorf("%d writes, %+v", writes, again)
		}
		cancel()
		synctest.Wait()
	})
}

func TestAReportThatCannotBeWritten(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{"no such kind": {errNoKind, false}, "refused": {errors.New("no"), true}} {
		report := &Report{Client: clientOf(t, failing(c.err)), Version: "1"}
		if err := report.write(t.Context()); (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
	}
}
