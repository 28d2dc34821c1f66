package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// ClusterVersion is the name of the one ClusterVersion.
const ClusterVersion = "version"

// World is what a run looks at, as it was read.
type World struct {
	// Run is the MutexRunConfig.
	Run *v1alpha1.MutexRunConfig
	// Rules and Targets are those that it may name.
	Rules   map[types.NamespacedName]*v1alpha1.MutexRule
	Targets map[types.NamespacedName]*v1alpha1.MutexTarget
	// Pools and Nodes are all of the cluster, Jobs those of the run.
	Pools []*mcfgv1.MachineConfigPool
	Nodes []*corev1.Node
	Jobs  map[types.NamespacedName]*batchv1.Job
	// Version is the ClusterVersion; nil for none.
	Version *configv1.ClusterVersion
	// VersionOf tells the version of a node; empty for not known.
	VersionOf func(*corev1.Node) string
	// Refusal says why rules and targets of a namespace do not count; empty where they do, nil where all do.
	Refusal func(namespace string) string
	// Held says who else holds the lease of a node; empty for nobody, nil for not known.
	Held func(node string) string
	// Now is the time.
	Now time.Time
}

func (w *World) refusal(namespace string) string {
	if w.Refusal == nil {
		return ""
	}
	return w.Refusal(namespace)
}

// Scene is what a run makes of the world.
type Scene struct {
	// Run is the MutexRunConfig.
	Run *v1alpha1.MutexRunConfig
	// Faults say what is wrong with the run and with what it names; empty for a valid one.
	Faults []string
	// Rules are the run's, in their order, Keys those of their labels.
	Rules []Rule
	Keys  []string
	// Pools are all, by name; Targets those of the run's targets, Canary the one that nodes are moved to, nil when it is not there.
	Pools, Targets []*mcfgv1.MachineConfigPool
	Canary         *mcfgv1.MachineConfigPool
	// Claims are those on all pools, by the pool's name.
	Claims map[string]*Claim
	// Nodes are those of the targets, Own those that are the canary pool's in any case, Marked those that have the run's label.
	Nodes       []*Node
	Own, Marked []*corev1.Node
	// Jobs are the run's.
	Jobs map[types.NamespacedName]*batchv1.Job
	// Desired is the version that is aimed at; Unchecked says why it is not known. Complete tells that the control plane has it.
	Desired, Unchecked string
	Complete           bool
	// Wait says why no node may be begun now, Wake when that may change by itself; zero for never.
	Wait string
	Wake time.Time

	now     time.Time
	members *Members
	// others are the nodes without the run's label.
	others []*corev1.Node
}

// Survey makes the scene of a run.
func Survey(w *World) *Scene {
	s := SurveyEnding(w)
	s.wait()
	return s
}

// SurveyEnding makes the scene of a run that is deleted, suspended or aborted: what has to be restored. Whether nodes may be begun is not
// asked, so no window, however it is written, keeps a run from being restored.
func SurveyEnding(w *World) *Scene {
	s := &Scene{Run: w.Run, Claims: map[string]*Claim{}, Jobs: ownJobs(w), now: w.Now}
	s.pools(w)
	s.rules(w)
	s.targets(w)
	s.version(w.Version)
	s.nodes(w)
	return s
}

func (s *Scene) fault(format string, args ...any) {
	s.Faults = append(s.Faults, fmt.Sprintf(format, args...))
}

// pools reads the pools and the claims on them.
func (s *Scene) pools(w *World) {
	s.Pools = slices.Clone(w.Pools)
	slices.SortFunc(s.Pools, comparePools)
	for _, pool := range s.Pools {
		claim, err := ClaimOf(pool)
		if err != nil {
			s.fault("%v", err)
		}
		if claim != nil {
			s.Claims[pool.Name] = claim
		}
	}
	var err error
	if s.members, err = NewMembers(s.Pools); err != nil && len(s.Faults) == 0 {
		s.fault("%v", err)
	}
}

func comparePools(a, b *mcfgv1.MachineConfigPool) int { return strings.Compare(a.Name, b.Name) }

func (s *Scene) pool(name string) *mcfgv1.MachineConfigPool {
	if i := slices.IndexFunc(s.Pools, func(p *mcfgv1.MachineConfigPool) bool { return p.Name == name }); i >= 0 {
		return s.Pools[i]
	}
	return nil
}

// named is what a reference of the run names. Without a namespace it is in the run's own.
func (s *Scene) named(ref v1alpha1.Reference) types.NamespacedName {
	if ref.Namespace == "" {
		ref.Namespace = s.Run.Namespace
	}
	return types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
}

// rules reads the run's rules, in their order.
func (s *Scene) rules(w *World) {
	for _, ref := range s.Run.Spec.MutexRules {
		name := s.named(ref)
		rule := w.Rules[name]
		if rule == nil {
			s.fault("MutexRule %s is not there", name)
			continue
		}
		if why := w.refusal(name.Namespace); why != "" {
			s.fault("MutexRule %s: %s", name, why)
			continue
		}
		read, err := judged(rule)
		if err == nil && slices.Contains(s.Keys, read.Key) {
			err = errors.New("it is named twice")
		}
		if err != nil {
			s.fault("MutexRule %s: %v", name, err)
			continue
		}
		s.Rules, s.Keys = append(s.Rules, read), append(s.Keys, read.Key)
	}
}

// judged makes a rule out of an object that has been found valid.
func judged(rule *v1alpha1.MutexRule) (Rule, error) {
	condition := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionValid)
	switch {
	case condition == nil || condition.ObservedGeneration != rule.Generation:
		return Rule{}, errors.New("it has not been looked at yet")
	case condition.Status != metav1.ConditionTrue:
		return Rule{}, errors.New(condition.Message)
	}
	return ReadRule(rule)
}

// ReadRule reads the Jobs of a rule, and makes the key of its label.
func ReadRule(rule *v1alpha1.MutexRule) (read Rule, err error) {
	read.Object = rule
	if read.Key, err = LabelKey(types.NamespacedName{Namespace: rule.Namespace, Name: rule.Name}); err != nil {
		return read, err
	}
	if read.Before, err = ReadJobSpec(&rule.Spec.JobSpec); err != nil {
		return read, fmt.Errorf("spec.jobSpec: %w", err)
	}
	if rule.Spec.CleanUpJobSpec != nil {
		if read.After, err = ReadJobSpec(rule.Spec.CleanUpJobSpec); err != nil {
			return read, fmt.Errorf("spec.cleanUpJobSpec: %w", err)
		}
	}
	return read, nil
}

// targets finds the pools that the run names.
func (s *Scene) targets(w *World) {
	for _, ref := range s.Run.Spec.MutexTargets {
		name := s.named(ref)
		target := w.Targets[name]
		if target == nil {
			s.fault("MutexTarget %s is not there", name)
			continue
		}
		if why := w.refusal(name.Namespace); why != "" {
			s.fault("MutexTarget %s: %s", name, why)
			continue
		}
		for _, pool := range target.Spec.MachineConfigPools {
			found := s.pool(pool)
			switch {
			case found == nil:
				s.fault("MutexTarget %s: MachineConfigPool %s is not there", name, pool)
			case required(found):
				s.fault("MutexTarget %s: the upgrade of the control plane waits for MachineConfigPool %s, which so cannot wait for it", name, pool)
			case pool == s.Run.Spec.Canary.Name:
				s.fault("MutexTarget %s: MachineConfigPool %s is the canary, to which nodes are moved", name, pool)
			default:
				s.Targets = append(s.Targets, found)
			}
		}
	}
	slices.SortFunc(s.Targets, comparePools)
	s.Targets = slices.Compact(s.Targets)
	switch s.Canary = s.pool(s.Run.Spec.Canary.Name); {
	case s.Canary == nil:
		s.fault("the canary MachineConfigPool %s is not there", s.Run.Spec.Canary.Name)
	case required(s.Canary):
		s.fault("the canary MachineConfigPool %s is one that the upgrade of the control plane waits for", s.Canary.Name)
	}
	s.parts()
	s.untaken()
}

// required tells whether the cluster's upgrade is not done before a pool's is.
func required(pool *mcfgv1.MachineConfigPool) bool {
	_, labelled := pool.Labels["operator.machineconfiguration.openshift.io/required-for-upgrade"]
	return labelled || pool.Name == poolMaster
}

// parts finds pools that have another part in the run than the one that they were claimed for: what they were is known for that part alone.
func (s *Scene) parts() {
	for _, pool := range s.Pools {
		claim := s.Claims[pool.Name]
		if claim == nil || claim.UID != s.Run.UID {
			continue
		}
		if target := slices.Contains(s.Targets, pool); claim.Canary && pool != s.Canary || !claim.Canary && pool == s.Canary || claim.Canary && target {
			s.fault("MachineConfigPool %s has another part in the run now than when it was claimed: suspend the run first", pool.Name)
		}
	}
}

// version reads what the cluster aims at. Completed counts for that version alone: before an update has begun, the last one is.
func (s *Scene) version(version *configv1.ClusterVersion) {
	if version == nil {
		s.Unchecked = "there is no ClusterVersion " + ClusterVersion
		return
	}
	s.Desired = Aim(version)
	if s.Desired == "" {
		s.Unchecked = "ClusterVersion " + ClusterVersion + " names no version"
	}
	if history := version.Status.History; len(history) > 0 {
		s.Complete = history[0].State == configv1.CompletedUpdate && Same(history[0].Version, s.Desired)
	}
}

// Aim is the version that a cluster is sent to, or that it has where it is sent to none; empty for not known.
func Aim(version *configv1.ClusterVersion) string {
	if aim := version.Spec.DesiredUpdate; aim != nil && aim.Version != "" {
		return aim.Version
	}
	return version.Status.Desired.Version
}

// nodes sorts the nodes of the targets, of the canary pool and those with the run's label.
func (s *Scene) nodes(w *World) {
	for _, node := range w.Nodes {
		if node.Labels[LabelRun] == string(s.Run.UID) {
			s.Marked = append(s.Marked, node)
		} else {
			s.others = append(s.others, node)
		}
		if s.members == nil {
			continue
		}
		pools := s.members.PoolsOf(node)
		if s.Canary != nil && slices.Equal(pools, []string{s.Canary.Name}) {
			s.Own = append(s.Own, node)
			continue
		}
		i := slices.IndexFunc(s.Targets, func(t *mcfgv1.MachineConfigPool) bool { return slices.Contains(pools, t.Name) })
		if i < 0 {
			continue
		}
		s.Nodes = append(s.Nodes, &Node{
			Node: node, Version: w.VersionOf(node), Pool: s.Targets[i].Name, Disputed: len(pools) > 1, Unavailable: Unavailable(node),
			Blocked: s.blocked(w, node, pools),
		})
	}
}

// blocked says why a node may not be begun; empty for nothing.
func (s *Scene) blocked(w *World, node *corev1.Node, pools []string) string {
	if len(pools) > 1 {
		return "MachineConfigPools " + strings.Join(pools, " and ") + " both select it"
	}
	if s.Canary != nil {
		selector := s.Canary.Spec.NodeSelector
		if claim := s.Claims[s.Canary.Name]; claim != nil {
			selector = claim.NodeSelector
		}
		if selector != nil {
			for key, value := range selector.MatchLabels {
				if have, there := node.Labels[key]; !there || have != value {
					return fmt.Sprintf("the canary MachineConfigPool %s selects nodes with the label %s=%s, which it does not have", s.Canary.Name, key, value)
				}
			}
		}
	}
	if w.Held == nil {
		return ""
	}
	return w.Held(node.Name)
}

// Unavailable tells whether a node is out of service: cordoned, or not Ready.
func Unavailable(node *corev1.Node) bool { return node.Spec.Unschedulable || !ready(node) }

func ready(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// wait says why no node may be begun.
func (s *Scene) wait() {
	open, changes, err := Windows(s.Run.Spec.Windows, s.now)
	if err != nil {
		s.fault("%v", err)
		return
	}
	s.Wake = changes
	switch {
	case !s.Complete:
		s.Wait = "the control plane does not have version " + s.Desired + " yet"
	case s.Canary != nil && s.Canary.Spec.Paused:
		s.Wait = "the canary MachineConfigPool " + s.Canary.Name + " is paused"
	case !open:
		s.Wait = "no maintenance window is open"
		if !changes.IsZero() {
			s.Wait += "; the next one opens at " + changes.UTC().Format("2006-01-02T15:04Z")
		}
	}
}

// Behind counts the nodes that have another version than the one that is aimed at.
func (s *Scene) Behind() int {
	behind := 0
	for _, node := range s.Nodes {
		if node.Version != "" && !Same(node.Version, s.Desired) {
			behind++
		}
	}
	return behind
}

// Unknown names the nodes whose version is not known.
func (s *Scene) Unknown() []string {
	var names []string
	for _, node := range s.Nodes {
		if node.Version == "" {
			names = append(names, node.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Claimed lists the pools that the run has claimed, by name: the canary, or the others.
func (s *Scene) Claimed(canary bool) []*mcfgv1.MachineConfigPool {
	return slices.DeleteFunc(slices.Clone(s.Pools), func(pool *mcfgv1.MachineConfigPool) bool {
		claim := s.Claims[pool.Name]
		return claim == nil || claim.UID != s.Run.UID || claim.Canary != canary
	})
}

// Holds tells whether the run has changed anything that it has not given back.
func (s *Scene) Holds() bool {
	return len(s.Marked) > 0 || len(s.Claimed(false)) > 0 || len(s.Claimed(true)) > 0
}

// Draining are the nodes that the run has released and that the machine-config-operator drains.
func (s *Scene) Draining() []*Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(node *Node) bool {
		return ReleaseOf(node.Node) == nil || !Draining(node.Node)
	})
}

// Left are the nodes that have the run's label and are none of its targets' or its canary's any more.
func (s *Scene) Left() []*corev1.Node {
	member := map[types.UID]bool{}
	for _, node := range s.Nodes {
		member[node.UID] = true
	}
	for _, node := range s.Own {
		member[node.UID] = true
	}
	return slices.DeleteFunc(slices.Clone(s.Marked), func(node *corev1.Node) bool { return member[node.UID] })
}

// Newcomer is a node that has joined a pool of the run.
type Newcomer struct {
	Node *corev1.Node
	// Marks are those that the pool asks for as it is now.
	Marks Marks
}

// Newcomers are the nodes without the run's label that are of a pool that it has claimed and whose selector it has changed.
func (s *Scene) Newcomers() []Newcomer {
	if s.members == nil {
		return nil
	}
	var all []Newcomer
	for _, node := range s.others {
		pools := s.members.PoolsOf(node)
		if len(pools) != 1 {
			continue
		}
		claim := s.Claims[pools[0]]
		switch {
		case claim == nil || claim.UID != s.Run.UID || len(claim.Keys) == 0:
		case claim.Canary:
			all = append(all, Newcomer{node, Join(node, s.Run.UID)})
		default:
			all = append(all, Newcomer{node, Gate(node, s.Run.UID, claim.Keys, claim.Keys, s.Desired)})
		}
	}
	return all
}

// Wanted are the pools that the run needs, by name: whoever wants several claims them in the same order, so that no two runs wait for each other.
func (s *Scene) Wanted() []*mcfgv1.MachineConfigPool {
	pools := append(slices.Clone(s.Targets), s.Canary)
	slices.SortFunc(pools, comparePools)
	return pools
}

// Input is what the nodes are decided on. The scene must be without faults.
func (s *Scene) Input() Input {
	in := Input{
		Run: s.Run, Rules: s.Rules, Nodes: s.Nodes, Jobs: s.Jobs, Desired: s.Desired, Wait: s.Wait, Unavailable: map[string]int{}, Now: s.now,
	}
	members := map[string]int{}
	for _, node := range s.Nodes {
		members[node.Pool]++
	}
	for _, pool := range s.Targets {
		in.Unavailable[pool.Name] = MaxUnavailable(pool, members[pool.Name])
	}
	return in
}
