package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestWatchFailures(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name            string
		ctx             context.Context
		err             error
		failed, trouble bool
	}{
		{"forbidden", t.Context(), apierrors.NewForbidden(setResource, "", errors.New("no")), true, false},
		{"no credentials any more", t.Context(), apierrors.NewUnauthorized("no"), true, false},
		{"the CRDs are gone", t.Context(), apierrors.NewGenericServerResponse(404, "get", setResource, "", "", 0, true), true, false},
		{"the API server restarts", t.Context(), fmt.Errorf("connection refused"), false, true},
		{"the connection ended as it does", t.Context(), io.EOF, false, false},
		{"the version expired", t.Context(), apierrors.NewResourceExpired("old"), false, false},
		{"the command ends", ended, fmt.Errorf("context canceled"), false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &live{failed: make(chan error, 1), trouble: make(chan error, 1)}
			// The second report finds the channels full and must not block.
			l.report(c.ctx, "machinesets", c.err)
			l.report(c.ctx, "machinesets", c.err)
			if len(l.failed) > 0 != c.failed || len(l.trouble) > 0 != c.trouble {
				t.Errorf("failed %d, trouble %d", len(l.failed), len(l.trouble))
			}
		})
	}
}

func TestSlim(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "x"}}}}
	node.Status.Images = []corev1.ContainerImage{{SizeBytes: 1}}
	machine := &machinev1beta1.Machine{}
	machine.Status.NodeRef = &corev1.ObjectReference{Name: "n"}
	machine.Status.ProviderStatus = &runtime.RawExtension{}
	for _, object := range []any{node, machine} {
		if _, err := slim(object); err != nil {
			t.Error(err)
		}
	}
	if node.ManagedFields != nil || node.Status.Images != nil {
		t.Error("the Node keeps what nobody looks at")
	}
	if machine.Status.NodeRef == nil || machine.Status.ProviderStatus != nil {
		t.Error("of the Machine the link to its Node is needed, the rest is not")
	}
}
