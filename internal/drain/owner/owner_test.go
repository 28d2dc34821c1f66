package owner

import (
	"context"
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/drain"
)

func machineOf(uid types.UID, deleted bool, finalizers ...string) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: uid, Finalizers: finalizers}}
	if deleted {
		machine.DeletionTimestamp = new(metav1.Now())
	}
	return machine
}

func TestGone(t *testing.T) {
	own := drain.CordonRecord{By: "Machine/uid", Object: "ns/m"}
	for name, c := range map[string]struct {
		record  drain.CordonRecord
		machine *machinev1beta1.Machine
		err     error
		want    bool
	}{
		"exists":                           {own, machineOf("uid", false), nil, false},
		"exists, and is being deleted":     {own, machineOf("uid", true, machinev1beta1.MachineFinalizer, "a/b"), nil, false},
		"does not exist":                   {own, nil, nil, true},
		"another one of the name":          {own, machineOf("other", false), nil, true},
		"kept by another finalizer":        {own, machineOf("uid", true, "a/b"), nil, true},
		"record without a name":            {drain.CordonRecord{By: "Machine/uid"}, nil, nil, false},
		"record of another kind":           {drain.CordonRecord{By: "NodeMaintenance/uid", Object: "ns/m"}, nil, nil, false},
		"may not be read":                  {own, nil, apierrors.NewForbidden(machinev1beta1.Resource("machines"), "m", nil), false},
		"cannot be read: no answer":        {own, nil, errors.New("no answer"), false},
		"no such kind: the CRD is removed": {own, nil, apierrors.NewNotFound(machinev1beta1.Resource("machines"), "m"), true},
	} {
		t.Run(name, func(t *testing.T) {
			known := runtime.NewScheme()
			if err := machinev1beta1.Install(known); err != nil {
				t.Fatal(err)
			}
			builder := fake.NewClientBuilder().WithScheme(known)
			if c.machine != nil {
				builder.WithObjects(c.machine)
			}
			if c.err != nil {
				builder.WithInterceptorFuncs(interceptor.Funcs{
					Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
						return c.err
					},
				})
			}
			got, err := Gone(t.Context(), builder.Build(), &c.record)
			fails := c.err
			if apierrors.IsNotFound(c.err) {
				fails = nil
			}
			if got != c.want || !errors.Is(err, fails) {
				t.Errorf("%t, %v; want %t, %v", got, err, c.want, fails)
			}
		})
	}
}

// A kubelet may write the annotations of its Node: an invalid name must not fail in client-go in every attempt.
func TestMachineOf(t *testing.T) {
	for object, want := range map[string]bool{
		"ns/m": true, "ns/m.example.com": true, "": false, "m": false, "ns/": false, "/m": false, "ns/a/b": false, "ns/..": false, "ns/%2e": false,
		"a.b/m": false, "NS/m": false,
	} {
		key, got := MachineOf(&drain.CordonRecord{By: "Machine/uid", Object: object})
		if got != want || got && key.String() != object {
			t.Errorf("%q: %s, %t; want %t", object, key, got, want)
		}
	}
}
