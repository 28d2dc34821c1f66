package history

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// Kind is a kind whose revisions are kept.
type Kind string

// The kinds.
const (
	KindNodeGroup  Kind = "NodeGroup"
	KindMachineSet Kind = "MachineSet"
)

// Labels and annotations of revisions.
const (
	// LabelGroup has the name of the NodeGroup that owns the revision.
	LabelGroup = "drover.dev/nodegroup"
	// LabelSubject identifies what the revision is of, in a form that fits into a label; AnnotationSubject has it for people.
	LabelSubject      = "drover.dev/revision-of"
	AnnotationSubject = "drover.dev/revision-of"
	// AnnotationCause says why the subject was changed, as for kubectl rollout history.
	AnnotationCause = "kubernetes.io/change-cause"
)

const (
	// MaxData is how many bytes a revision may have.
	MaxData = 64 << 10
	// maxCause is how much of a cause is kept.
	maxCause = 1 << 10
	// maxPrefix is how long the readable part of a name may be: the name of an object has at most 253 characters.
	maxPrefix = 200
	// hashLength is the number of characters of a hash. 64 bits are enough for names within one history.
	hashLength = 16
)

// Subject is what revisions are kept of.
type Subject struct {
	// Group is the NodeGroup that owns the revisions. Only its name and UID count.
	Group *v1alpha1.NodeGroup
	Kind  Kind
	// Namespace and Name identify the subject; a NodeGroup has no namespace.
	Namespace, Name string
}

// OfGroup returns a NodeGroup as the subject of revisions.
func OfGroup(group *v1alpha1.NodeGroup) Subject {
	return Subject{Group: group, Kind: KindNodeGroup, Name: group.Name}
}

// OfMachineSet returns a MachineSet of a NodeGroup as the subject of revisions.
func OfMachineSet(group *v1alpha1.NodeGroup, namespace, name string) Subject {
	return Subject{Group: group, Kind: KindMachineSet, Namespace: namespace, Name: name}
}

// String returns the kind and the name, for people.
func (s *Subject) String() string {
	if s.Namespace == "" {
		return string(s.Kind) + " " + s.Name
	}
	return string(s.Kind) + " " + s.Namespace + "/" + s.Name
}

// Labels returns the labels that select the revisions of the subject, whichever group owns them.
func (s *Subject) Labels() map[string]string {
	return map[string]string{LabelSubject: hash(string(s.Kind), s.Namespace, s.Name)}
}

// revision returns the revision that holds data. The same data has the same name, so that it is created once.
func (s *Subject) revision(namespace string, data []byte, number int64, cause string) *appsv1.ControllerRevision {
	prefix := strings.TrimRight(s.Name[:min(len(s.Name), maxPrefix)], "-.")
	labels := s.Labels()
	labels["app.kubernetes.io/managed-by"], labels[LabelGroup] = "drover", s.Group.Name
	revision := &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   namespace,
			Name:        prefix + "-" + hash(string(s.Group.UID), string(s.Kind), s.Namespace, s.Name, string(data)),
			Labels:      labels,
			Annotations: map[string]string{AnnotationSubject: s.String()},
			OwnerReferences: []metav1.OwnerReference{{
				// Without blockOwnerDeletion: a group that is deleted need not wait for its history.
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeGroup", Name: s.Group.Name, UID: s.Group.UID, Controller: new(true),
			}},
		},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
	setCause(revision, cause)
	return revision
}

// setCause sets or removes the cause of a revision.
func setCause(revision *appsv1.ControllerRevision, cause string) {
	if cause == "" {
		delete(revision.Annotations, AnnotationCause)
		return
	}
	metav1.SetMetaDataAnnotation(&revision.ObjectMeta, AnnotationCause, strings.ToValidUTF8(cause[:min(len(cause), maxCause)], ""))
}

// hash identifies texts.
func hash(texts ...string) string {
	sum := sha256.New()
	for _, text := range texts {
		// None of them has a zero in it, so that no two lists have the same hash.
		_, _ = sum.Write(append([]byte(text), 0))
	}
	return hex.EncodeToString(sum.Sum(nil))[:hashLength]
}
