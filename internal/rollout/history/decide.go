package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// Input is what Decide depends on. The objects are not changed.
type Input struct {
	Subject Subject
	// Namespace is where revisions are kept.
	Namespace string
	// Data is what the subject declares now, as GroupData or MachineSetData returns it. Cause says why; empty for unknown.
	Data  []byte
	Cause string
	// Limit is how many revisions are kept in addition to the revision with Data.
	Limit int
	// Revisions are the revisions with the labels of the subject. A revision counts only if the group owns it.
	Revisions []*appsv1.ControllerRevision
}

// Plan is what to write so that the history of a subject ends with what it declares now. If the history ends with that already, the Plan is empty.
type Plan struct {
	// Create is a new revision. Renumber is a revision that gets the number Number, because what it holds is declared again.
	Create, Renumber *appsv1.ControllerRevision
	Number           int64
	// Delete are the revisions beyond the limit, the oldest first.
	Delete []*appsv1.ControllerRevision
	// NotKept says why Data is not kept; empty if it is.
	NotKept string
}

// Decide decides what to write.
func Decide(in *Input) Plan {
	var p Plan
	earlier := Owned(in.Revisions, in.Subject.Group.UID)
	next := int64(1)
	if len(earlier) > 0 {
		next = earlier[len(earlier)-1].Revision + 1
	}
	current := lastWith(earlier, in.Data)
	switch {
	case len(in.Data) > MaxData:
		p.NotKept = fmt.Sprintf("it has %d bytes, and a revision has at most %d", len(in.Data), MaxData)
	case current < 0:
		p.Create = in.Subject.revision(in.Namespace, in.Data, next, in.Cause)
	case current < len(earlier)-1:
		p.Renumber, p.Number = earlier[current], next
	}
	if current >= 0 {
		earlier = slices.Delete(earlier, current, current+1)
	}
	p.Delete = earlier[:max(0, len(earlier)-max(0, in.Limit))]
	return p
}

// Owned returns the revisions that are controlled by the owner with a UID, by their number. Others may have the same labels, and are never used.
func Owned(revisions []*appsv1.ControllerRevision, owner types.UID) []*appsv1.ControllerRevision {
	var owned []*appsv1.ControllerRevision
	for _, revision := range revisions {
		if controller := metav1.GetControllerOfNoCopy(revision); controller != nil && controller.UID == owner {
			owned = append(owned, revision)
		}
	}
	Sort(owned)
	return owned
}

// Gone returns the revisions that a group owns of deleted MachineSets of a namespace; names are the MachineSets that exist there. It leaves revisions
// of MachineSets in other namespaces alone, because it does not know whether these MachineSets exist.
func Gone(revisions []metav1.PartialObjectMetadata, group *v1alpha1.NodeGroup, namespace string, names []string) []*appsv1.ControllerRevision {
	all, existing := OfMachineSet(group, namespace, ""), map[string]bool{}
	for _, name := range names {
		subject := OfMachineSet(group, namespace, name)
		existing[subject.Labels()[LabelSubject]] = true
	}
	var gone []*appsv1.ControllerRevision
	for i := range revisions {
		revision := &appsv1.ControllerRevision{ObjectMeta: revisions[i].ObjectMeta}
		if strings.HasPrefix(revision.Annotations[AnnotationSubject], all.String()) && !existing[revision.Labels[LabelSubject]] {
			gone = append(gone, revision)
		}
	}
	return Owned(gone, group.UID)
}

// Sort puts the revision with the lowest number first.
func Sort(revisions []*appsv1.ControllerRevision) {
	slices.SortFunc(revisions, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(a.Revision, b.Revision), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// Find returns the revision with a number; nil for none. The revisions are as Owned returns them.
func Find(revisions []*appsv1.ControllerRevision, number int64) *appsv1.ControllerRevision {
	for _, revision := range slices.Backward(revisions) {
		if revision.Revision == number {
			return revision
		}
	}
	return nil
}

// Previous returns the newest revision that holds something else than data; nil for none. The revisions are as Owned returns them.
func Previous(revisions []*appsv1.ControllerRevision, data []byte) *appsv1.ControllerRevision {
	for _, revision := range slices.Backward(revisions) {
		if !Holds(revision, data) {
			return revision
		}
	}
	return nil
}

// Holds reports whether a revision holds data.
func Holds(revision *appsv1.ControllerRevision, data []byte) bool {
	return bytes.Equal(canonical(revision.Data.Raw), canonical(data))
}

// lastWith returns the index of the last revision that holds data; -1 for none.
func lastWith(revisions []*appsv1.ControllerRevision, data []byte) int {
	for i, revision := range slices.Backward(revisions) {
		if Holds(revision, data) {
			return i
		}
	}
	return -1
}

// canonical returns JSON in a form that does not depend on how it was written.
func canonical(data []byte) []byte {
	var value any
	if json.Unmarshal(data, &value) != nil {
		return data
	}
	text, err := json.Marshal(value)
	if err != nil {
		return data
	}
	return text
}
