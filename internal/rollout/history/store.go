package history

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// Store reads and writes revisions.
type Store struct {
	// Reader asks the API server: histories are read too rarely for a cache, once for each change and after a start.
	Reader client.Reader
	Writer client.Client
	// Namespace is where revisions are kept: Drover's own.
	Namespace string
	// Owner is the field manager of writes.
	Owner client.FieldOwner
}

// Keep makes data the current revision of a subject, and deletes those beyond the limit. It writes nothing if that is so already, and may be repeated
// after any error. It returns why data is not kept; empty if it is.
func (s *Store) Keep(ctx context.Context, subject Subject, data []byte, cause string, limit int) (notKept string, err error) {
	revisions, err := List(ctx, s.Reader, s.Namespace, &subject)
	if err != nil {
		return "", err
	}
	p := Decide(&Input{Subject: subject, Namespace: s.Namespace, Data: data, Cause: cause, Limit: limit, Revisions: revisions})
	notKept, err = s.write(ctx, &p, cause)
	if err != nil {
		return "", fmt.Errorf("keeping a revision of %s: %w", &subject, err)
	}
	return notKept, s.delete(ctx, p.Delete)
}

// Prune deletes the revisions that a group owns of those MachineSets of a namespace that are gone: of all but those with these names. It may be
// repeated after any error.
func (s *Store) Prune(ctx context.Context, group *v1alpha1.NodeGroup, namespace string, names []string) error {
	// Without what they hold: that is up to 64 KiB each.
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("ControllerRevisionList"))
	if err := s.Reader.List(ctx, list, client.InNamespace(s.Namespace), client.MatchingLabels{LabelGroup: group.Name}); err != nil {
		return fmt.Errorf("listing the revisions of NodeGroup %s: %w", group.Name, err)
	}
	return s.delete(ctx, Gone(list.Items, group, namespace, names))
}

func (s *Store) delete(ctx context.Context, revisions []*appsv1.ControllerRevision) error {
	for _, revision := range revisions {
		err := s.Writer.Delete(ctx, revision, client.Preconditions{UID: &revision.UID, ResourceVersion: &revision.ResourceVersion})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting an old revision of %s: %w", revision.Annotations[AnnotationSubject], err)
		}
	}
	return nil
}

// write creates or renumbers a revision.
func (s *Store) write(ctx context.Context, p *Plan, cause string) (notKept string, err error) {
	switch {
	case p.Create != nil:
		err = s.Writer.Create(ctx, p.Create, s.Owner)
		if apierrors.IsAlreadyExists(err) {
			// It was not among the group's revisions.
			return fmt.Sprintf("ControllerRevision %s/%s exists and has another owner; delete it", p.Create.Namespace, p.Create.Name), nil
		}
	case p.Renumber != nil:
		next := p.Renumber.DeepCopy()
		next.Revision = p.Number
		setCause(next, cause)
		err = s.Writer.Patch(ctx, next, client.MergeFromWithOptions(p.Renumber, client.MergeFromWithOptimisticLock{}), s.Owner)
	}
	return p.NotKept, err
}

// List returns the revisions in a namespace that have the labels of a subject. Their owners may differ.
func List(ctx context.Context, reader client.Reader, namespace string, subject *Subject) ([]*appsv1.ControllerRevision, error) {
	var list appsv1.ControllerRevisionList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.MatchingLabels(subject.Labels())); err != nil {
		return nil, fmt.Errorf("listing the revisions of %s: %w", subject, err)
	}
	revisions := make([]*appsv1.ControllerRevision, len(list.Items))
	for i := range list.Items {
		revisions[i] = &list.Items[i]
	}
	return revisions, nil
}
