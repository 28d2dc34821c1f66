package ui

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
)

// The most that the page keeps of a kind, in bytes. A Node or Machine of a usual cluster has one to four kilobytes.
const (
	maxFleet = 256 << 20
	maxOther = 64 << 20
)

// cluster is what the page knows of the cluster.
type cluster struct {
	client  client.WithWatch
	tracker *model.Tracker
	now     func() time.Time
	// write reports whether the page may write.
	write bool
	// interval is the least time between two computations.
	interval time.Duration
	sources  []*source
	nodes    *source
	// dirty has a value when objects have changed since the last computation.
	dirty chan struct{}
	// loaded is closed when all that decides about nodes has been read once.
	loaded chan struct{}

	mu sync.Mutex
	// pending has the objects that have changed since the last computation, nil for a deleted object.
	pending map[model.Ref]client.Object
	status  []SourceStatus
	// next is closed when there is something new to show.
	next chan struct{}
}

func newCluster(c client.WithWatch, namespaces []string, protected ownership.Protected, now func() time.Time) *cluster {
	u := &cluster{
		client: c, tracker: model.NewTracker(protected), now: now, interval: 250 * time.Millisecond, dirty: make(chan struct{}, 1),
		loaded: make(chan struct{}), pending: map[model.Ref]client.Object{}, next: make(chan struct{}),
	}
	everywhere := []string{""}
	u.nodes = u.add(model.ResourceNodes, &corev1.Node{}, &corev1.NodeList{}, everywhere)
	u.nodes.pageSize, u.nodes.store.most, u.nodes.early = 500, maxFleet, u.showEarly
	machines := u.add(model.ResourceMachines, &machinev1beta1.Machine{}, &machinev1beta1.MachineList{}, namespaces)
	machines.pageSize, machines.store.most = 500, maxFleet
	// Of the kinds that decide about nodes, Machines take the longest to read.
	machines.after = u.nodes
	u.add(model.ResourceGroups, &drover.NodeGroup{}, &drover.NodeGroupList{}, everywhere)
	u.add(model.ResourceSets, &machinev1beta1.MachineSet{}, &machinev1beta1.MachineSetList{}, namespaces)
	u.add(model.ResourceMaintenances, &medik8s.NodeMaintenance{}, &medik8s.NodeMaintenanceList{}, everywhere)
	u.add(model.ResourceOlderMaintenances, &kubevirt.NodeMaintenance{}, &kubevirt.NodeMaintenanceList{}, everywhere)
	u.add(model.ResourceRuns, &mutex.MutexRunConfig{}, &mutex.MutexRunConfigList{}, namespaces)
	u.add(model.ResourceLeases, &coordinationv1.Lease{}, &coordinationv1.LeaseList{}, []string{nodelease.Namespace()})
	// The last two do not decide about the states of nodes.
	u.add(model.ResourceChecks, &machinev1beta1.MachineHealthCheck{}, &machinev1beta1.MachineHealthCheckList{}, namespaces).isDetail = true
	u.add(model.ResourceAutoscalers, &autoscaling.MachineAutoscaler{}, &autoscaling.MachineAutoscalerList{}, namespaces).isDetail = true
	return u
}

// add adds a kind. A tenant's object can have more than a megabyte, so pages are small.
func (u *cluster) add(resource string, object client.Object, list client.ObjectList, namespaces []string) *source {
	s := &source{
		resource: resource, client: u.client, object: object, namespaces: namespaces, pageSize: 100, availability: Loading,
		answered: make(chan struct{}),
		store:    newStore(maxOther, trim, func(changes []change) { u.note(resource, changes) }), changed: u.markDirty,
		newList: func() client.ObjectList {
			// A copy of an empty list is an empty list.
			empty, _ := list.DeepCopyObject().(client.ObjectList)
			return empty
		},
	}
	u.sources = append(u.sources, s)
	return s
}

// trim drops what the page does not read of an object.
func trim(object client.Object) {
	object.SetManagedFields(nil)
	object.SetResourceVersion("")
	switch object := object.(type) {
	case *corev1.Node:
		version := object.Status.NodeInfo.KubeletVersion
		compact.Node(object)
		object.Status.NodeInfo.KubeletVersion = compact.Text(version)
	case *machinev1beta1.Machine:
		compact.Machine(object)
		object.Spec.ProviderSpec, object.Status.ProviderStatus = machinev1beta1.ProviderSpec{}, nil
		object.Status.Addresses, object.Status.LastOperation, object.Status.LastUpdated = nil, nil, nil
	case *machinev1beta1.MachineSet:
		object.Spec.Template.Spec.ProviderSpec = machinev1beta1.ProviderSpec{}
	}
}

// note has changed objects be looked at.
func (u *cluster) note(resource string, changes []change) {
	u.mu.Lock()
	for _, change := range changes {
		u.pending[model.Ref{Resource: resource, NamespacedName: change.key}] = asKnown(change.object)
	}
	u.mu.Unlock()
	u.markDirty()
}

// asKnown returns an object as the model knows its kind.
func asKnown(object client.Object) client.Object {
	switch m := object.(type) {
	case *medik8s.NodeMaintenance:
		return maintenanceOf(medik8s.GroupVersion, m.ObjectMeta, m.Spec, m.Status)
	case *kubevirt.NodeMaintenance:
		spec := medik8s.NodeMaintenanceSpec{NodeName: m.Spec.NodeName, Reason: m.Spec.Reason}
		return maintenanceOf(kubevirt.GroupVersion, m.ObjectMeta, spec, m.Status)
	}
	return object
}

// take returns what has changed since it was called last.
func (u *cluster) take() []model.Event {
	u.mu.Lock()
	defer u.mu.Unlock()
	events := make([]model.Event, 0, len(u.pending))
	for ref, object := range u.pending {
		events = append(events, model.Event{Ref: ref, Object: object})
	}
	u.pending = map[model.Ref]client.Object{}
	return events
}

// markDirty has what the page shows be computed again.
func (u *cluster) markDirty() {
	select {
	case u.dirty <- struct{}{}:
	default:
	}
}

// refreshInterval is how often what depends on the time is computed: leases expire, and windows open. A computation is followed by a longer pause, up
// to maxPause, so that a large cluster does not keep a processor busy.
const (
	refreshInterval = 30 * time.Second
	maxPause        = 2 * time.Second
	loadingPause    = 10 * time.Millisecond
)

// run keeps what the page shows up to date until the context ends.
func (u *cluster) run(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, source := range u.sources {
		watches.Go(func() { source.run(ctx) })
	}
	defer watches.Wait()
	refresh := time.NewTicker(refreshInterval)
	defer refresh.Stop()
	for {
		isRefresh := false
		select {
		case <-ctx.Done():
			return nil
		case <-refresh.C:
			isRefresh = true
		case <-u.dirty:
		}
		begun := time.Now()
		pause := loadingPause
		if u.update(ctx, isRefresh) {
			pause = min(max(u.interval, 4*time.Since(begun)), maxPause)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// showEarly shows the first Nodes of a large cluster before the last ones have been read, and before what concerns them has been.
func (u *cluster) showEarly(page client.ObjectList) {
	if nodes, ok := page.(*corev1.NodeList); ok && !u.isComplete() {
		u.tracker.ShowEarly(nodes.Items)
		u.markDirty()
	}
}

// update computes what has changed, and reports whether everything has been read.
func (u *cluster) update(ctx context.Context, isRefresh bool) bool {
	defer u.publish()
	if !u.isLoaded() {
		return false
	}
	var missing error
	for _, source := range u.sources {
		if source.resource == model.ResourceMachines || source.resource == model.ResourceSets {
			missing = errors.Join(missing, source.missing())
		}
	}
	u.tracker.Update(ctx, u.take(), missing, u.now())
	if isRefresh {
		u.tracker.Refresh(ctx, u.now())
	}
	select {
	case <-u.loaded:
	default:
		close(u.loaded)
	}
	return true
}

// isLoaded reports whether the API server has answered for each kind that decides about nodes: a fleet without groups would be shown as one that
// nothing manages.
func (u *cluster) isLoaded() bool {
	return !slices.ContainsFunc(u.sources, func(s *source) bool { return !s.isDetail && s.status().Availability == Loading })
}

// maintenanceOf returns a NodeMaintenance of either group, which TypeMeta names.
func maintenanceOf(
	group schema.GroupVersion, metadata metav1.ObjectMeta, spec medik8s.NodeMaintenanceSpec, status medik8s.NodeMaintenanceStatus,
) *medik8s.NodeMaintenance {
	m := &medik8s.NodeMaintenance{ObjectMeta: metadata, Spec: spec, Status: status}
	m.SetGroupVersionKind(group.WithKind("NodeMaintenance"))
	return m
}

// publish says that there is something new to show.
func (u *cluster) publish() {
	status := make([]SourceStatus, len(u.sources))
	for i, source := range u.sources {
		status[i] = source.status()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.status = status
	close(u.next)
	u.next = make(chan struct{})
}

// Cluster is the document that says how complete the others are.
type Cluster struct {
	view.TypeMeta
	// Ready reports that there are nodes to show, and Complete that everything has been read that decides about their states.
	Ready    bool `json:"ready"`
	Complete bool `json:"complete"`
	// Write reports whether the page may write (--write).
	Write   bool           `json:"write,omitempty"`
	Sources []SourceStatus `json:"sources"`
}

// isComplete reports whether everything that decides about nodes has been read.
func (u *cluster) isComplete() bool {
	select {
	case <-u.loaded:
		return true
	default:
		return false
	}
}

// document returns which kinds are read, and a channel that is closed when there is something new to show.
func (u *cluster) document() (document Cluster, next <-chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	document = Cluster{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "Cluster"}, Write: u.write, Complete: u.isComplete(), Sources: slices.Clone(u.status),
	}
	document.Ready = document.Complete || u.tracker.Cells.Len() > 0
	return document, u.next
}
