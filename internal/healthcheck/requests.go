package healthcheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// Requests lists the remediation requests of the templates that may be used, from the API server.
type Requests struct {
	// Cache has Machines; Live reads any kind from the API server, and Client knows any kind.
	Cache, Live client.Reader
	Client      client.Client
	// Kinds are the kinds of the templates that may be used; without any, nothing is read.
	Kinds []string
	// Absent knows which of them are not served.
	Absent *Absent
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Absent remembers which kinds the API server does not serve: a look at it costs several requests. Everything that lists remediation requests shares
// one Absent, so that nothing overlooks a request that was just created. The zero value remembers no kind.
type Absent struct {
	mu    sync.Mutex
	kinds map[schema.GroupKind]time.Time
}

// has reports whether a kind was not served a moment ago.
func (a *Absent) has(kind schema.GroupKind, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, found := a.kinds[kind]
	age := now.Sub(at)
	return found && age >= 0 && age < absentTime
}

func (a *Absent) put(kind schema.GroupKind, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.kinds == nil {
		a.kinds = map[schema.GroupKind]time.Time{}
	}
	a.kinds[kind] = now
}

// remove has a kind looked for again.
func (a *Absent) remove(kind schema.GroupKind) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.kinds, kind)
}

// listTimeout bounds a list of remediation requests: other MachineHealthChecks wait while one counts the remediations in flight.
const listTimeout = 10 * time.Second

// absentTime is how long a kind that the API server does not serve is not looked for. For longer, a budget counts the admission of a remediation.
const absentTime = disruptionplan.AdmissionTime / 2

// List returns the Machines of a namespace that have a request, whether or not a MachineHealthCheck names its template now. If a kind cannot be
// listed until a user changes something, List returns none of that kind. The MachineHealthCheck of that kind reports the problem, and creates no
// requests either.
func (r *Requests) List(ctx context.Context, namespace string) (found []disruptionplan.Requested, err error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	for _, name := range r.Kinds {
		template, kind := plan.RequestKindOf(name)
		served, err := r.served(kind)
		if err != nil {
			return nil, fmt.Errorf("finding the version of %s: %w", kind, err)
		}
		if served.Empty() {
			continue
		}
		requests, err := r.listKind(ctx, served, namespace)
		switch {
		case errors.Is(err, errClusterScoped), isUnavailable(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", kind, err)
		}
		for j := range requests.Items {
			if found, err = r.add(ctx, found, &requests.Items[j], template); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// served returns a kind at the version that the API server prefers; empty if the API server does not serve the kind.
func (r *Requests) served(kind schema.GroupKind) (schema.GroupVersionKind, error) {
	if r.Absent.has(kind, r.now()) {
		return schema.GroupVersionKind{}, nil
	}
	mapping, err := r.Client.RESTMapper().RESTMapping(kind)
	switch {
	case meta.IsNoMatchError(err):
		r.Absent.put(kind, r.now())
		return schema.GroupVersionKind{}, nil
	case err != nil:
		return schema.GroupVersionKind{}, err
	}
	return mapping.GroupVersionKind, nil
}

func (r *Requests) now() time.Time {
	if r.Clock == nil {
		return time.Now()
	}
	return r.Clock.Now()
}

// add adds the Machine that a request was created for.
func (r *Requests) add(
	ctx context.Context, found []disruptionplan.Requested, request *metav1.PartialObjectMetadata, template schema.GroupKind,
) ([]disruptionplan.Requested, error) {
	machine, key := &machinev1beta1.Machine{}, client.ObjectKeyFromObject(request)
	err := r.Cache.Get(ctx, key, machine)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	if err == nil && plan.IsRequestFor(request, machine, template) {
		of := disruptionplan.Requested{Machine: key, UID: machine.UID, Since: request.CreationTimestamp.Time}
		if node := requestFor(machine, nil); node.Node != node.Object {
			of.Node, of.NodeUID = node.Node, node.UID
		}
		found = append(found, of)
	}
	return found, nil
}

// errClusterScoped is returned for requests of a kind that is not namespaced: a list would be of all objects of the cluster.
var errClusterScoped = errors.New("the kind is not namespaced")

// listKind lists the remediation requests of a kind in a namespace.
func (r *Requests) listKind(ctx context.Context, kind schema.GroupVersionKind, namespace string) (*metav1.PartialObjectMetadataList, error) {
	request := &metav1.PartialObjectMetadata{}
	request.SetGroupVersionKind(kind)
	namespaced, err := r.Client.IsObjectNamespaced(request)
	switch {
	case err != nil:
		return nil, err
	case !namespaced:
		return nil, errClusterScoped
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, r.Live.List(ctx, list, client.InNamespace(namespace))
}

// isUnavailable reports whether an object cannot be read until a user changes something: it, its kind, or the permission is missing.
func isUnavailable(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
