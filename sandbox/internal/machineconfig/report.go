package machineconfig

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// Report is how far a cluster's update is.
type Report struct {
	// Version is the newest version of the history, and State its state.
	Version, State string
	// Desired is the version asked for; the newest one when none is.
	Desired string
	// Stage is what goes on.
	Stage Stage
	// Pools and Nodes are in the order of their names.
	Pools []PoolReport
	Nodes []NodeReport
}

// PoolReport is how far a pool is.
type PoolReport struct {
	Name, Version                                   string
	Paused, Updated, Updating, Degraded             bool
	Machines, Done, Ready, Unavailable, DegradedNow int32
}

// NodeReport is how far a Node is.
type NodeReport struct {
	Name, Pool, Version, Desired, State, Step string
	Ready, Cordoned                           bool
}

// Describe reads the cluster.
func Describe(ctx context.Context, reader client.Reader) (*Report, error) {
	version := &configv1.ClusterVersion{}
	if err := reader.Get(ctx, types.NamespacedName{Name: openshift.ClusterVersionName}, version); err != nil {
		return nil, fmt.Errorf("machineconfig: reading the ClusterVersion: %w", err)
	}
	pools, configs, nodes := &mcfgv1.MachineConfigPoolList{}, &mcfgv1.MachineConfigList{}, &corev1.NodeList{}
	for _, list := range []client.ObjectList{pools, configs, nodes} {
		if err := reader.List(ctx, list); err != nil {
			return nil, fmt.Errorf("machineconfig: reading %T: %w", list, err)
		}
	}
	versions := map[string]string{}
	for i := range configs.Items {
		versions[configs.Items[i].Name] = configs.Items[i].Annotations[openshift.VersionKey]
	}
	report := &Report{}
	report.describeVersion(version)
	var selecting []*mcfgv1.MachineConfigPool
	for i := range pools.Items {
		selecting = append(selecting, &pools.Items[i])
		report.Pools = append(report.Pools, describePool(&pools.Items[i], versions))
	}
	membership := NewMembership(selecting)
	for i := range nodes.Items {
		report.Nodes = append(report.Nodes, describeNode(&nodes.Items[i], membership, versions))
	}
	slices.SortFunc(report.Pools, func(a, b PoolReport) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(report.Nodes, func(a, b NodeReport) int { return strings.Compare(a.Name, b.Name) })
	return report, nil
}

func (r *Report) describeVersion(version *configv1.ClusterVersion) {
	if len(version.Status.History) > 0 {
		r.Version, r.State = version.Status.History[0].Version, string(version.Status.History[0].State)
	}
	r.Desired = r.Version
	if version.Spec.DesiredUpdate != nil {
		r.Desired = version.Spec.DesiredUpdate.Version
	}
	if phase, err := PhaseOf(version, time.Time{}); err == nil {
		r.Stage = phase.Stage
	}
}

func describePool(pool *mcfgv1.MachineConfigPool, versions map[string]string) PoolReport {
	// What the conditions say of an older spec, such as another target, is not true any more.
	observed := pool.Status.ObservedGeneration == pool.Generation
	return PoolReport{
		Name: pool.Name, Version: versions[pool.Spec.Configuration.Name], Paused: pool.Spec.Paused,
		Updated: observed && isTrue(pool, mcfgv1.MachineConfigPoolUpdated), Updating: observed && isTrue(pool, mcfgv1.MachineConfigPoolUpdating),
		Degraded: isTrue(pool, mcfgv1.MachineConfigPoolDegraded),
		Machines: pool.Status.MachineCount, Done: pool.Status.UpdatedMachineCount, Ready: pool.Status.ReadyMachineCount,
		Unavailable: pool.Status.UnavailableMachineCount, DegradedNow: pool.Status.DegradedMachineCount,
	}
}

func describeNode(node *corev1.Node, membership *Membership, versions map[string]string) NodeReport {
	pool, err := membership.Of(node.Labels)
	if err != nil {
		pool = "conflict"
	}
	step, _ := stepOf(node)
	return NodeReport{
		Name: node.Name, Pool: pool, State: node.Annotations[openshift.AnnotationState], Step: string(step),
		Version: versions[node.Annotations[openshift.AnnotationCurrentConfig]], Desired: versions[node.Annotations[openshift.AnnotationDesiredConfig]],
		Ready: reportsReady(node), Cordoned: node.Spec.Unschedulable,
	}
}

// Reached reports whether the cluster has completed its update to a version, and every Node of every pool runs it.
func (r *Report) Reached(version string) bool {
	if r.Version != version || r.State != string(configv1.CompletedUpdate) || r.Stage != StageCompleted {
		return false
	}
	for _, pool := range r.Pools {
		if pool.Version != version || !pool.Updated {
			return false
		}
	}
	return true
}

// Line is the state of the cluster in a line.
func (r *Report) Line() string {
	parts := []string{fmt.Sprintf("%s %s", r.Version, r.State)}
	for _, pool := range r.Pools {
		part := fmt.Sprintf("%s %d/%d", pool.Name, pool.Done, pool.Machines)
		if pool.Paused {
			part += " paused"
		}
		if pool.Degraded {
			part += " degraded"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// Write prints the report as tables.
func (r *Report) Write(output io.Writer) error {
	table := tabwriter.NewWriter(output, 0, 0, 3, ' ', 0)
	line := func(cells ...any) {
		texts := make([]string, 0, len(cells))
		for _, cell := range cells {
			if text := fmt.Sprint(cell); text != "" {
				texts = append(texts, text)
			} else {
				texts = append(texts, "-")
			}
		}
		_, _ = fmt.Fprintln(table, strings.Join(texts, "\t"))
	}
	line("VERSION", "STATE", "DESIRED", "STAGE")
	line(r.Version, r.State, r.Desired, r.Stage)
	_, _ = fmt.Fprintln(table)
	line("POOL", "RENDERED", "PAUSED", "UPDATED", "UPDATING", "DEGRADED", "MACHINES", "DONE", "READY", "UNAVAILABLE")
	for _, pool := range r.Pools {
		line(pool.Name, pool.Version, pool.Paused, pool.Updated, pool.Updating, pool.Degraded, pool.Machines, pool.Done, pool.Ready, pool.Unavailable)
	}
	_, _ = fmt.Fprintln(table)
	line("NODE", "POOL", "VERSION", "DESIRED", "STATE", "STEP", "READY", "CORDONED")
	for _, node := range r.Nodes {
		line(node.Name, node.Pool, node.Version, node.Desired, node.State, node.Step, node.Ready, node.Cordoned)
	}
	return table.Flush()
}

// Await waits until a version is reached, and writes a line to progress whenever the state of the cluster has changed.
func Await(ctx context.Context, reader client.Reader, version string, progress io.Writer) error {
	last := ""
	err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		report, err := Describe(ctx, reader)
		if err != nil {
			return false, nil //nolint:nilerr // the API server may be restarting
		}
		if line := report.Line(); line != last {
			last = line
			if progress != nil {
				_, _ = fmt.Fprintln(progress, line)
			}
		}
		return report.Reached(version), nil
	})
	if err != nil {
		return fmt.Errorf("machineconfig: waiting for version %s: %w; the last state is: %s", version, err, last)
	}
	return nil
}
