// Package owner tells whether the Machine whose cordon record is on a node still exists. A record whose owner is gone is taken over, or undone, by
// whichever controller finds it: nobody else would.
package owner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
)

// MachinePrefix comes before a Machine's UID in Hold.By.
const MachinePrefix = "Machine/"

// MachineOf returns the namespace and name of the Machine that wrote a record; false if another kind of object did, if the record, which is of
// an older Drover, has only a UID, or if what it names cannot be a Machine: client-go refuses such names before it asks, each time anew.
func MachineOf(hold *drain.CordonRecord) (types.NamespacedName, bool) {
	namespace, name, found := strings.Cut(hold.Object, "/")
	valid := found && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	return types.NamespacedName{Namespace: namespace, Name: name}, valid && strings.HasPrefix(hold.By, MachinePrefix)
}

// Gone asks the API server whether the Machine that wrote a record is gone: no Machine with its UID exists, or Drover has finished with it and
// another finalizer keeps it. It is not while that cannot be known; the error is Forbidden where Drover may not read the Machine.
func Gone(ctx context.Context, live client.Reader, hold *drain.CordonRecord) (bool, error) {
	key, known := MachineOf(hold)
	if !known {
		return false, nil
	}
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
	err := live.Get(ctx, key, machine)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading Machine %s, whose cordon record is on a node: %w", key, err)
	}
	finished := machine.DeletionTimestamp != nil && !slices.Contains(machine.Finalizers, machinev1beta1.MachineFinalizer)
	return finished || hold.By != MachinePrefix+string(machine.UID), nil
}
