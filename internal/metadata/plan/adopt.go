package plan

import (
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// Adopt adds the ownership record to a Machine that is about to be created from its MachineSet's template, so that the first reconciliation of the
// new Machine has nothing to write. It does not change a Machine whose entries have to be changed first.
func Adopt(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine, protected ownership.Protected, now time.Time) {
	change := Decide(Input{Declaration: DeclarationOf(set), Machine: machine, Protected: protected, Now: now}).Machine
	for _, result := range change.Results {
		if result.Changed() {
			return
		}
	}
	if change.Write {
		metav1.SetMetaDataAnnotation(&machine.ObjectMeta, ownership.AnnotationRecord, change.Record)
	}
}
