package machineapi

import (
	"strconv"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// CreatedForAnnotation says what Drover has created a Machine for: "growth", "deleted/UID", "deleted" or "outdated/UID". Anyone who may write a
// Machine can set it: never count a Machine that it marks as owed without a bound in time.
const CreatedForAnnotation = "drover.dev/created-for"

// ReachedReplicasAnnotation records on a MachineSet how many replicas it had reached, while Machines that it owes are not created: without it, a
// status with fewer replicas would make them look like growth. It means nothing beyond spec.replicas.
const ReachedReplicasAnnotation = "drover.dev/reached-replicas"

// CreationReason is why a Machine has been created.
type CreationReason string

// The reasons.
const (
	// CreatedForGrowth: spec.replicas has grown. With the UID of another Machine it is made in place of that, which was made for growth and has never
	// had a Node: no Node is lost.
	CreatedForGrowth CreationReason = "growth"
	// CreatedForDeleted: another Machine is being deleted, or is gone.
	CreatedForDeleted CreationReason = "deleted"
	// CreatedForOutdated: a NodeGroup replaces another Machine, which may still be there.
	CreatedForOutdated CreationReason = "outdated"
)

// CreatedFor returns why Drover has created a Machine, and the UID of the Machine that it replaces, empty if that is not known. The reason is empty
// if the Machine has no annotation, or an invalid one.
func CreatedFor(machine metav1.Object) (CreationReason, types.UID) {
	reason, uid, named := strings.Cut(machine.GetAnnotations()[CreatedForAnnotation], "/")
	switch CreationReason(reason) {
	case CreatedForGrowth, CreatedForDeleted:
		if named == (uid != "") {
			return CreationReason(reason), types.UID(uid)
		}
	case CreatedForOutdated:
		if uid != "" {
			return CreatedForOutdated, types.UID(uid)
		}
	}
	return "", ""
}

// CreatedForValue returns the value of CreatedForAnnotation for a Machine that replaces another one; without a UID that one is not known.
func CreatedForValue(reason CreationReason, uid types.UID) string {
	if uid == "" {
		return string(reason)
	}
	return string(reason) + "/" + string(uid)
}

// ReachedReplicas returns the value of ReachedReplicasAnnotation; zero if it is missing or invalid.
func ReachedReplicas(set *machinev1beta1.MachineSet) int {
	reached, err := strconv.ParseInt(set.Annotations[ReachedReplicasAnnotation], 10, 32)
	if err != nil || reached < 0 {
		return 0
	}
	return int(reached)
}
