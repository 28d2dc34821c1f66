// Package machinejson decodes Machines from JSON as the API server writes it, in less time than client-go and without their managedFields. Machines
// are the only custom resources that are numerous, and a custom resource comes as JSON.
package machinejson

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/undecodable"
)

// Decode decodes a Machine, without its managedFields. It changes the bytes of the text. As in every typed object that client-go decodes, TypeMeta is
// empty. If Go cannot decode a field, the Machine is marked, as package undecodable says. Decode returns an error if the text is not JSON, or not a
// Machine.
func Decode(text []byte) (*machinev1beta1.Machine, error) {
	machine := &machinev1beta1.Machine{}
	if err := undecodable.Decode(text, machine); err != nil {
		return nil, err
	}
	return machine, nil
}
