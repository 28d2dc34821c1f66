// Package owner reports whether the Machine that owns the cordon record of a node still exists. The controller that finds a record whose owner is
// gone takes it over or removes it.
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

// MachinePrefix is the prefix of a Machine's UID in CordonRecord.By.
const MachinePrefix = "Machine/"

// MachineOf returns the namespace and name of the Machine that owns a record. It returns false if the owner is of another kind, if the record of an
// older version of Drover has only a UID, or if the name is not a valid one, which client-go would refuse in every attempt.
func MachineOf(record *drain.CordonRecord) (types.NamespacedName, bool) {
	namespace, name, found := strings.Cut(record.Object, "/")
	valid := found && len(validation.IsDNS1123Label(namespace)) == 0 && len(validation.IsDNS1123Subdomain(name)) == 0
	return types.NamespacedName{Namespace: namespace, Name: name}, valid && strings.HasPrefix(record.By, MachinePrefix)
}

// Gone reports whether the Machine that owns a record is gone: no Machine with its UID exists, or Drover has removed its own finalizer and another
// one remains. It reads from the API server. The error is Forbidden if Drover may not read the Machine.
func Gone(ctx context.Context, live client.Reader, record *drain.CordonRecord) (bool, error) {
	key, known := MachineOf(record)
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
	return finished || record.By != MachinePrefix+string(machine.UID), nil
}
