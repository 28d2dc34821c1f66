package plan

import (
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
)

// ClusterVersion is the name of the one ClusterVersion.
const ClusterVersion = "version"

// Input is what a run depends on, as it was read.
type Input struct {
	// Config is the MutexRunConfig.
	Config *v1alpha1.MutexRunConfig
	// Ending reports whether no node is to be started: the run is paused, suspended, aborted, deleted or not allowed. Its maintenance windows are not
	// even parsed, so that they cannot prevent a restore.
	Ending bool
	// Rules and Targets are all of the cluster.
	Rules   map[types.NamespacedName]*v1alpha1.MutexRule
	Targets map[types.NamespacedName]*v1alpha1.MutexTarget
	// MCPs and Nodes are all of the cluster, Jobs those with the label of the run.
	MCPs  []*mcfgv1.MachineConfigPool
	Nodes []*corev1.Node
	Jobs  map[types.NamespacedName]*batchv1.Job
	// Version is the ClusterVersion; nil if there is none.
	Version *configv1.ClusterVersion
	// VersionOf returns the version of a node; empty if it is not known.
	VersionOf func(*corev1.Node) string
	// Refusal returns why objects of a namespace have no effect; empty if they have one, nil if all have.
	Refusal func(namespace string) string
	// LeaseOf returns the other holder of a node's lease and when the lease expires; empty for none. Nil is for unknown.
	LeaseOf func(node string) (holder string, until time.Time)
	// Drains are the drains of released nodes, PassedOver is why nodes were passed over last, by the UID of the Node.
	Drains     map[types.UID]Drain
	PassedOver map[types.UID]string
	// Now is the time.
	Now time.Time
}

func (in *Input) refusal(namespace string) string {
	if in.Refusal == nil {
		return ""
	}
	return in.Refusal(namespace)
}

// Rule is a valid MutexRule of a run.
type Rule struct {
	// Object is the MutexRule.
	Object *v1alpha1.MutexRule
	// Key is the key of its label on nodes.
	Key string
	// Before and After are its Jobs before and after the upgrade of a node; After is nil if there is none.
	Before, After *batchv1.JobSpec
}

// Spec returns the Job of a kind; nil if there is none.
func (r *Rule) Spec(kind JobKind) *batchv1.JobSpec {
	if kind == AfterUpgrade {
		return r.After
	}
	return r.Before
}

// Node is a node of the run's targets.
type Node struct {
	*corev1.Node
	// Version is its version; empty if that is not known.
	Version string
	// MCP is the name of its target.
	MCP string
	// Unavailable reports whether it is cordoned or not Ready.
	Unavailable bool
	// Disputed reports whether several MachineConfigPools select it; no run changes it then.
	Disputed bool
	// Blocked is why it cannot be started; empty if it can. PassedOver is why it had to wait when it could last have been started.
	Blocked, PassedOver string
	// Drain is its drain by the machine-config-operator.
	Drain Drain
}

// Run is a MutexRunConfig together with everything that it refers to.
type Run struct {
	// Config is the MutexRunConfig.
	Config *v1alpha1.MutexRunConfig
	// Refused is why it has no effect in its namespace; empty if it has one.
	Refused string
	// Problems are what is wrong with the run and with what it refers to; empty for a valid one.
	Problems []string
	// Rules are the run's, in their order, and Keys are the keys of their labels.
	Rules []Rule
	Keys  []string
	// MCPs are all MachineConfigPools, by name. Targets are the MachineConfigPools of the run's MutexTargets. Canary is the MachineConfigPool that
	// released nodes are moved to, nil if it does not exist.
	MCPs, Targets []*mcfgv1.MachineConfigPool
	Canary        *mcfgv1.MachineConfigPool
	// Reservations are the reservations of all MachineConfigPools, by name.
	Reservations map[string]*Reservation
	// Nodes are the nodes of the targets. CanaryNodes are the nodes that belong to the canary without a release. Labeled are the nodes with the label of
	// this run.
	Nodes                []*Node
	CanaryNodes, Labeled []*corev1.Node
	// Jobs are the run's.
	Jobs map[types.NamespacedName]*batchv1.Job
	// Desired is the desired version, or VersionProblem is why it is not known. Completed reports whether the control plane has it.
	Desired, VersionProblem string
	Completed               bool
	// Wait is why no node may be started now; empty if one may. Wake is when Wait or a node's Blocked may change without an event; zero is never.
	Wait string
	Wake time.Time
	// MaxUnavailable is how many nodes of a target may be unavailable at once, by the name of the target.
	MaxUnavailable map[string]int
	// Now is the time.
	Now time.Time

	membership *Membership
	// unlabeled are the nodes without the label of this run.
	unlabeled []*corev1.Node
}

func (r *Run) wakeAt(at time.Time) { r.Wake = bounded.Earliest(r.Wake, at) }

// NeedsRestore reports whether the run has changed anything that it has not restored.
func (r *Run) NeedsRestore() bool {
	return len(r.Labeled) > 0 || len(r.reserved(false)) > 0 || len(r.reserved(true)) > 0
}

// reserved returns the MachineConfigPools that the run has reserved, by name: the canary, or the others.
func (r *Run) reserved(canary bool) []*mcfgv1.MachineConfigPool {
	return slices.DeleteFunc(slices.Clone(r.MCPs), func(mcp *mcfgv1.MachineConfigPool) bool {
		reservation := r.Reservations[mcp.Name]
		return reservation == nil || reservation.UID != r.Config.UID || reservation.Canary != canary
	})
}

// RequiredMCPs returns the MachineConfigPools that the run needs. All runs reserve them in this order, so that no two runs wait for each other.
func (r *Run) RequiredMCPs() []*mcfgv1.MachineConfigPool {
	mcps := append(slices.Clone(r.Targets), r.Canary)
	slices.SortFunc(mcps, compareMCPs)
	return mcps
}

func (r *Run) requires(mcp *mcfgv1.MachineConfigPool) bool {
	return mcp == r.Canary || slices.Contains(r.Targets, mcp)
}

func compareMCPs(a, b *mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) }

// isOutdated reports whether a node is known to have another version than the desired one.
func (r *Run) isOutdated(node *Node) bool {
	return node.Version != "" && !SameVersion(node.Version, r.Desired)
}

// OutdatedNode returns a node that has another version than the desired one; nil if there is none.
func (r *Run) OutdatedNode() *Node {
	if i := slices.IndexFunc(r.Nodes, r.isOutdated); i >= 0 {
		return r.Nodes[i]
	}
	return nil
}

// outdated returns how many nodes have another version than the desired one.
func (r *Run) outdated() (count int) {
	for _, node := range r.Nodes {
		if r.isOutdated(node) {
			count++
		}
	}
	return count
}

// UnknownVersions returns the names of the nodes whose version is not known, and reports whether it is known of none.
func (r *Run) UnknownVersions() (names []string, all bool) {
	for _, node := range r.Nodes {
		if node.Version == "" {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names, len(names) > 0 && len(names) == len(r.Nodes)
}

// leftNodes returns the nodes with the label of the run that belong neither to its targets nor to its canary any more.
func (r *Run) leftNodes() []*corev1.Node {
	member := map[types.UID]bool{}
	for _, node := range r.Nodes {
		member[node.UID] = true
	}
	for _, node := range r.CanaryNodes {
		member[node.UID] = true
	}
	return slices.DeleteFunc(slices.Clone(r.Labeled), func(node *corev1.Node) bool { return member[node.UID] })
}

// preparedNodes returns the nodes without any run's label whose Jobs of this run may need a clean-up. Jobs from before the run was settled do not
// count: all runs acquire leases as the same holder, and such a node may be another run's by now.
func (r *Run) preparedNodes() []*corev1.Node {
	prepared := map[types.UID]bool{}
	for _, job := range r.Jobs {
		if !isSettled(r.Config, job) {
			prepared[types.UID(job.Annotations[AnnotationNodeUID])] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(r.unlabeled), func(node *corev1.Node) bool { return node.Labels[LabelRun] != "" || !prepared[node.UID] })
}

// LeasedNodes returns the nodes whose leases the run may have.
func (r *Run) LeasedNodes() []*corev1.Node { return slices.Concat(r.Labeled, r.preparedNodes()) }

// isSettled reports whether the run was settled since a Job was created: nothing has to be cleaned up for the Job.
func isSettled(config *v1alpha1.MutexRunConfig, job *batchv1.Job) bool {
	return config.Status.Settled != nil && !job.CreationTimestamp.After(config.Status.Settled.Time)
}

// newestJob returns when the newest of the run's Jobs was created; nil if there is none.
func (r *Run) newestJob() (newest *metav1.Time) {
	for _, job := range r.Jobs {
		if newest == nil || newest.Before(&job.CreationTimestamp) {
			newest = &job.CreationTimestamp
		}
	}
	return newest
}

// jobsFinished reports whether none of the run's Jobs is running.
func (r *Run) jobsFinished() bool {
	for _, job := range r.Jobs {
		if !IsFinished(job) {
			return false
		}
	}
	return true
}

// Settled reports whether the status already says that nothing has to be cleaned up for any Job of the run.
func (r *Run) Settled() bool {
	settled, newest := r.Config.Status.Settled, r.newestJob()
	return newest.IsZero() || settled != nil && !settled.Before(newest)
}
