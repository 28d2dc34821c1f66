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
	client    client.WithWatch
	protected ownership.Protected
	now       func() time.Time
	// interval is the least time between two computations.
	interval time.Duration
	sources  []*source
	// dirty has a value when objects have changed since the last computation.
	dirty chan struct{}

	nodes, groups, sets, machines, checks, autoscalers, maintenances, olderMaintenances, runs, leases *source

	mu sync.Mutex
	// state is the last one; nil before the first.
	state  *model.State
	status []SourceStatus
	// next is closed when one of them has changed.
	next chan struct{}
}

func newCluster(c client.WithWatch, namespaces []string, protected ownership.Protected, now func() time.Time) *cluster {
	u := &cluster{client: c, protected: protected, now: now, interval: 250 * time.Millisecond, dirty: make(chan struct{}, 1), next: make(chan struct{})}
	everywhere := []string{""}
	u.nodes = u.add("nodes", &corev1.Node{}, &corev1.NodeList{}, everywhere)
	u.nodes.fromCache, u.nodes.pageSize, u.nodes.store.most = true, 500, maxFleet
	u.machines = u.add("machines.machine.openshift.io", &machinev1beta1.Machine{}, &machinev1beta1.MachineList{}, namespaces)
	u.machines.pageSize, u.machines.store.most = 500, maxFleet
	u.groups = u.add("nodegroups.drover.dev", &drover.NodeGroup{}, &drover.NodeGroupList{}, everywhere)
	u.sets = u.add("machinesets.machine.openshift.io", &machinev1beta1.MachineSet{}, &machinev1beta1.MachineSetList{}, namespaces)
	u.checks = u.add(
		"machinehealthchecks.machine.openshift.io", &machinev1beta1.MachineHealthCheck{}, &machinev1beta1.MachineHealthCheckList{}, namespaces)
	u.autoscalers = u.add(
		"machineautoscalers.autoscaling.openshift.io", &autoscaling.MachineAutoscaler{}, &autoscaling.MachineAutoscalerList{}, namespaces)
	u.maintenances = u.add("nodemaintenances.nodemaintenance.medik8s.io", &medik8s.NodeMaintenance{}, &medik8s.NodeMaintenanceList{}, everywhere)
	u.olderMaintenances = u.add("nodemaintenances.nodemaintenance.kubevirt.io", &kubevirt.NodeMaintenance{}, &kubevirt.NodeMaintenanceList{}, everywhere)
	u.runs = u.add("mutexrunconfigs.openshift-optional.skrzypek.io", &mutex.MutexRunConfig{}, &mutex.MutexRunConfigList{}, namespaces)
	u.leases = u.add("leases.coordination.k8s.io", &coordinationv1.Lease{}, &coordinationv1.LeaseList{}, []string{nodelease.Namespace()})
	return u
}

// add adds a kind. A tenant's object can have more than a megabyte, so pages are small.
func (u *cluster) add(resource string, object client.Object, list client.ObjectList, namespaces []string) *source {
	s := &source{
		resource: resource, client: u.client, object: object, namespaces: namespaces, pageSize: 100, availability: Loading,
		store: newStore(maxOther, trim, u.markDirty),
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

// markDirty has the state be computed again.
func (u *cluster) markDirty() {
	select {
	case u.dirty <- struct{}{}:
	default:
	}
}

// timeout is how long the state stays without a change of the cluster: leases expire, and windows open.
const timeout = 30 * time.Second

// run keeps the state up to date until the context ends. A large cluster must not keep a processor busy, so pauses are longer than computations.
func (u *cluster) run(ctx context.Context) error {
	var watches sync.WaitGroup
	for _, source := range u.sources {
		watches.Go(func() { source.run(ctx) })
	}
	defer watches.Wait()
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-u.dirty:
		}
		begun := time.Now()
		if u.isLoaded() {
			u.publish(model.Compute(ctx, u.objects(), u.protected, u.now()))
		} else {
			u.publish(nil)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(u.interval, 4*time.Since(begun))):
		}
		timer.Reset(timeout)
	}
}

// isLoaded reports whether the API server has answered for each kind: a fleet without groups would be shown as one that nothing manages.
func (u *cluster) isLoaded() bool {
	return !slices.ContainsFunc(u.sources, func(s *source) bool { return s.status().Availability == Loading })
}

// objects returns the objects of all kinds.
func (u *cluster) objects() *model.Objects {
	out := &model.Objects{
		Nodes: all[*corev1.Node](u.nodes.store), Groups: all[*drover.NodeGroup](u.groups.store), Sets: all[*machinev1beta1.MachineSet](u.sets.store),
		Machines: all[*machinev1beta1.Machine](u.machines.store), Checks: all[*machinev1beta1.MachineHealthCheck](u.checks.store),
		Autoscalers: all[*autoscaling.MachineAutoscaler](u.autoscalers.store), Runs: all[*mutex.MutexRunConfig](u.runs.store),
		Leases: all[*coordinationv1.Lease](u.leases.store),
	}
	for _, m := range all[*medik8s.NodeMaintenance](u.maintenances.store) {
		out.Maintenances = append(out.Maintenances, maintenanceOf(medik8s.GroupVersion, m.ObjectMeta, m.Spec, m.Status))
	}
	for _, m := range all[*kubevirt.NodeMaintenance](u.olderMaintenances.store) {
		spec := medik8s.NodeMaintenanceSpec{NodeName: m.Spec.NodeName, Reason: m.Spec.Reason}
		out.Maintenances = append(out.Maintenances, maintenanceOf(kubevirt.GroupVersion, m.ObjectMeta, spec, m.Status))
	}
	out.NoSets = errors.Join(u.machines.missing(), u.sets.missing())
	return out
}

// maintenanceOf returns a NodeMaintenance of either group, which TypeMeta names.
func maintenanceOf(
	group schema.GroupVersion, metadata metav1.ObjectMeta, spec medik8s.NodeMaintenanceSpec, status medik8s.NodeMaintenanceStatus,
) *medik8s.NodeMaintenance {
	m := &medik8s.NodeMaintenance{ObjectMeta: metadata, Spec: spec, Status: status}
	m.SetGroupVersionKind(group.WithKind("NodeMaintenance"))
	return m
}

// publish sets what the page shows. A nil state leaves the one before.
func (u *cluster) publish(state *model.State) {
	status := make([]SourceStatus, len(u.sources))
	for i, source := range u.sources {
		status[i] = source.status()
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if state != nil {
		u.state = state
	}
	u.status = status
	close(u.next)
	u.next = make(chan struct{})
}

// Cluster is the document that says how complete the others are.
type Cluster struct {
	view.TypeMeta
	// Ready reports that there is something to show.
	Ready bool `json:"ready"`
	// Write reports whether the page may write (--write).
	Write   bool           `json:"write,omitempty"`
	Sources []SourceStatus `json:"sources"`
}

// snapshot is what the page shows at one moment.
type snapshot struct {
	cluster Cluster
	// state is nil before the first one.
	state *model.State
	// next is closed when there is another snapshot.
	next <-chan struct{}
}

func (u *cluster) snapshot() snapshot {
	u.mu.Lock()
	defer u.mu.Unlock()
	return snapshot{
		cluster: Cluster{
			TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "Cluster"}, Ready: u.state != nil, Sources: slices.Clone(u.status),
		},
		state: u.state, next: u.next,
	}
}
