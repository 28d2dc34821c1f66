package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// event is an event of a watch. Objects are never changed once they are in an event.
type event struct {
	object client.Object
	gone   bool
}

// server is a model of the API server. Only the scheduler's goroutine touches it.
type server struct {
	version int
	uids    int
	objects map[*kind]map[string]client.Object
	events  map[*kind][]event
	// wrote is called for each write that has changed something.
	wrote func(w *write)
}

// request says who asks for what.
type request struct {
	// who is a controller or an actor of the world, pass the reconciliation that it is part of; empty for none.
	who, pass string
	verb      string
	patch     []byte
}

func newServer() *server {
	s := &server{objects: map[*kind]map[string]client.Object{}, events: map[*kind][]event{}, wrote: func(*write) {}}
	for _, k := range allKinds {
		s.objects[k] = map[string]client.Object{}
	}
	return s
}

// get returns an object that must not be changed; nil when there is none.
func (s *server) get(k *kind, key string) client.Object { return s.objects[k][key] }

// all lists the objects of a kind by name. They must not be changed.
func (s *server) all(k *kind) []client.Object {
	list := make([]client.Object, 0, len(s.objects[k]))
	for _, key := range slices.Sorted(maps.Keys(s.objects[k])) {
		list = append(list, s.objects[k][key])
	}
	return list
}

func (s *server) notFound(k *kind, name string) error {
	return apierrors.NewNotFound(k.resource(), name)
}

// create makes an object, and fills in what the API server fills in.
func (s *server) create(r request, object client.Object) (client.Object, error) {
	k := kindOf(object)
	if s.get(k, keyOf(object)) != nil {
		return nil, apierrors.NewAlreadyExists(k.resource(), object.GetName())
	}
	made, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return nil, fmt.Errorf("%T is no object", object)
	}
	if k.generation {
		made.SetGeneration(1)
	}
	if k.status && k.generation {
		if err := takeStatus(k, made, k.make()); err != nil {
			return nil, err
		}
	}
	s.uids++
	made.SetUID(types.UID(fmt.Sprintf("uid-%d", s.uids)))
	made.SetCreationTimestamp(metav1.NewTime(time.Now().UTC().Truncate(time.Second)))
	made.SetResourceVersion("")
	r.verb = "create"
	s.commit(r, nil, made)
	return made, nil
}

// guards are the preconditions of a write.
type guards struct {
	uid     *types.UID
	version *string
}

func (g guards) check(k *kind, object client.Object) error {
	if g.uid != nil && *g.uid != object.GetUID() {
		return apierrors.NewConflict(k.resource(), object.GetName(), fmt.Errorf("the UID in the precondition (%s) is not %s", *g.uid, object.GetUID()))
	}
	if g.version != nil && *g.version != object.GetResourceVersion() {
		return apierrors.NewConflict(k.resource(), object.GetName(),
			fmt.Errorf("the object has been modified: its version is %s, not %s", object.GetResourceVersion(), *g.version))
	}
	return nil
}

// change replaces an object by what a function makes of it. Part is the subresource, empty for the object itself.
func (s *server) change(
	r request, k *kind, key, part string, g guards, edit func(before client.Object) (client.Object, error),
) (client.Object, error) {
	before := s.get(k, key)
	if before == nil {
		return nil, s.notFound(k, key)
	}
	if err := g.check(k, before); err != nil {
		return nil, err
	}
	after, err := edit(before)
	if err != nil {
		return nil, err
	}
	if err := settle(k, part, before, after); err != nil {
		return nil, err
	}
	if apiequality.Semantic.DeepEqual(before, after) {
		return before, nil
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 && k.name != "Pod" {
		s.remove(r, before, after)
		return after, nil
	}
	s.commit(r, before, after)
	return after, nil
}

// settle takes back what a request may not change, and counts the generation.
func settle(k *kind, part string, before, after client.Object) error {
	if after.GetUID() != before.GetUID() {
		return apierrors.NewConflict(k.resource(), before.GetName(), fmt.Errorf("the UID %s is not %s", after.GetUID(), before.GetUID()))
	}
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	after.SetGeneration(before.GetGeneration())
	after.SetResourceVersion(before.GetResourceVersion())
	switch {
	case part == "status":
		keepAllButStatus(before, after)
		return nil
	case part == "both":
		// An actor of the world is several requests in one.
	case k.status:
		if err := takeStatus(k, after, before); err != nil {
			return err
		}
	}
	if before.GetDeletionTimestamp() != nil {
		for _, finalizer := range after.GetFinalizers() {
			if !slices.Contains(before.GetFinalizers(), finalizer) {
				return apierrors.NewForbidden(k.resource(), before.GetName(), fmt.Errorf("no new finalizers on an object that is being deleted"))
			}
		}
	}
	if k.generation && !sameSpec(before, after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	return nil
}

// delete begins or ends an object's deletion.
func (s *server) delete(r request, k *kind, key string, g guards, grace *int64) error {
	before := s.get(k, key)
	if before == nil {
		return s.notFound(k, key)
	}
	if err := g.check(k, before); err != nil {
		return err
	}
	r.verb = "delete"
	after := copied(before)
	pod, isPod := after.(*corev1.Pod)
	if isPod && grace == nil {
		grace = pod.Spec.TerminationGracePeriodSeconds
	}
	lasts := isPod && grace != nil && *grace > 0
	if len(before.GetFinalizers()) == 0 && !lasts {
		s.remove(r, before, after)
		return nil
	}
	if before.GetDeletionTimestamp() != nil {
		return nil
	}
	at := metav1.NewTime(time.Now().UTC().Truncate(time.Second))
	if lasts {
		at = metav1.NewTime(at.Add(time.Duration(*grace) * time.Second))
	}
	after.SetDeletionTimestamp(&at)
	if k.generation {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	s.commit(r, before, after)
	return nil
}

// remove ends an object.
func (s *server) remove(r request, before, last client.Object) {
	k := kindOf(before)
	s.version++
	last.SetResourceVersion(strconv.Itoa(s.version))
	delete(s.objects[k], keyOf(last))
	s.events[k] = append(s.events[k], event{object: last, gone: true})
	s.wrote(&write{request: r, kind: k, key: keyOf(last), before: before, after: last, gone: true, version: s.version})
}

// commit stores an object under a new version and adds an event.
func (s *server) commit(r request, before, after client.Object) {
	k := kindOf(after)
	s.version++
	after.SetResourceVersion(strconv.Itoa(s.version))
	s.objects[k][keyOf(after)] = after
	s.events[k] = append(s.events[k], event{object: after})
	s.wrote(&write{request: r, kind: k, key: keyOf(after), before: before, after: after, version: s.version})
}

func copied(object client.Object) client.Object {
	out, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		panic(fmt.Sprintf("%T is no object", object))
	}
	return out
}
