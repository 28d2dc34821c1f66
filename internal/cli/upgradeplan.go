package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// UpgradePlan is what `upgrade plan` prints.
type UpgradePlan struct {
	TypeMeta
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Version is the one that is aimed at; Waits says why no node would be begun now. Note says what would be done where that is less than
	// gating nodes: then no pool would be changed but back.
	Version string `json:"version,omitempty"`
	Waits   string `json:"waits,omitempty"`
	Note    string `json:"note,omitempty"`
	// Faults say what is wrong with the run; then nothing would be done.
	Faults []string `json:"faults,omitempty"`
	// Pools are those that would be changed.
	Pools []UpgradePool `json:"pools,omitempty"`
	// Nodes are those of the targets, in the order of their turns.
	Nodes []UpgradeNode `json:"nodes,omitempty"`
}

// UpgradePool is what would be changed of a pool.
type UpgradePool struct {
	Name   string `json:"name"`
	Canary bool   `json:"canary,omitempty"`
	// ClaimedBy is the other run that has the pool.
	ClaimedBy string `json:"claimedBy,omitempty"`
	// Paused is what it would be, and was before; Before and During are the selectors.
	Paused    bool                  `json:"paused"`
	WasPaused bool                  `json:"wasPaused"`
	Before    *metav1.LabelSelector `json:"before"`
	During    *metav1.LabelSelector `json:"during"`
}

// UpgradeNode is what would be done for a node.
type UpgradeNode struct {
	Name    string          `json:"name"`
	Pool    string          `json:"pool"`
	Version string          `json:"version,omitempty"`
	Phase   mutex.NodePhase `json:"phase"`
	Message string          `json:"message,omitempty"`
	// Before are the Jobs that are left to run before it is let go, After those afterwards, as namespace/name.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
}

type upgradePlanCommand struct {
	*options
	output output
	// from says where the version of a node is read, as the operator's configuration does.
	from string
}

func newUpgradePlan(o *options) *cobra.Command {
	p := &upgradePlanCommand{options: o}
	command := &cobra.Command{
		Use: "plan RUN", Short: "Show what a run would do, without doing it", Args: oneRun, ValidArgsFunction: o.completeRuns,
		Long: `Show what a run would do, without doing it: the nodes in the order of their turns, their Jobs, the pools and their selectors.`,
		RunE: run(p.run),
	}
	p.output.addFlags(command)
	command.Flags().StringVar(&p.from, "upgrade-node-version", string(plan.VersionAuto),
		"Where the version of a node is read, as the operator's setting of that name has it: Auto, Label, MachineConfig")
	return command
}

func (p *upgradePlanCommand) run(ctx context.Context, args []string) error {
	if err := p.output.validate(); err != nil {
		return err
	}
	switch plan.VersionSource(p.from) {
	case plan.VersionAuto, plan.VersionLabel, plan.VersionConfig:
	default:
		return usageError("--upgrade-node-version %q: it is Auto, Label or MachineConfig", p.from)
	}
	c, err := p.connect()
	if err != nil {
		return err
	}
	found, err := p.runNamed(ctx, c, args)
	if err != nil {
		return err
	}
	input, err := p.readInput(ctx, c, found)
	if err != nil {
		return err
	}
	versions := &versionReader{client: c, from: plan.VersionSource(p.from), known: map[string]string{}}
	input.VersionOf = func(node *corev1.Node) string { return versions.of(ctx, node) }
	resolved := plan.Resolve(input)
	if versions.failed != nil {
		return versions.failed
	}
	document := upgradePlan(resolved)
	if !p.output.table() {
		return p.output.print(p.Out, document)
	}
	return document.draw(p.Out)
}

// readInput reads everything that a run depends on.
func (p *upgradePlanCommand) readInput(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) (*plan.Input, error) {
	in := &plan.Input{
		Config: run, Now: p.now(), Rules: map[types.NamespacedName]*mutex.MutexRule{}, Targets: map[types.NamespacedName]*mutex.MutexTarget{},
		Jobs: map[types.NamespacedName]*batchv1.Job{},
	}
	rules, err := list[*mutex.MutexRule](ctx, c, upgradeRules, "")
	if err != nil {
		return nil, err
	}
	for _, rule := range rules {
		in.Rules[client.ObjectKeyFromObject(rule)] = rule
	}
	targets, err := list[*mutex.MutexTarget](ctx, c, upgradeTargets, "")
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		in.Targets[client.ObjectKeyFromObject(target)] = target
	}
	mcps := listed{"machineconfigpools", func() client.ObjectList { return &mcfgv1.MachineConfigPoolList{} }, false}
	if in.MCPs, err = list[*mcfgv1.MachineConfigPool](ctx, c, mcps, ""); err != nil {
		return nil, err
	}
	if in.Nodes, err = list[*corev1.Node](ctx, c, nodes, ""); err != nil {
		return nil, err
	}
	if err := p.addJobs(ctx, c, in); err != nil {
		return nil, err
	}
	version := &configv1.ClusterVersion{}
	err = c.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version)
	switch {
	case err == nil:
		in.Version = version
	case !apierrors.IsNotFound(err):
		return nil, explained(err, "reading ClusterVersion "+plan.ClusterVersion, "clusterversions")
	}
	return in, nil
}

func (p *upgradePlanCommand) addJobs(ctx context.Context, c client.Client, in *plan.Input) error {
	jobs := &batchv1.JobList{}
	if err := c.List(ctx, jobs, client.MatchingLabels{plan.LabelRun: string(in.Config.UID)}); err != nil {
		return explained(err, "listing the run's Jobs", "jobs")
	}
	for i := range jobs.Items {
		in.Jobs[client.ObjectKeyFromObject(&jobs.Items[i])] = &jobs.Items[i]
	}
	return nil
}

// versionReader tells the version of nodes, and reads each rendered MachineConfig once.
type versionReader struct {
	client client.Client
	from   plan.VersionSource
	known  map[string]string
	// failed is why one could not be read; one that is not there is no failure.
	failed error
}

func (r *versionReader) of(ctx context.Context, node *corev1.Node) string {
	return plan.VersionOf(node, r.from, func(name string) string {
		if version, seen := r.known[name]; seen {
			return version
		}
		config := &metav1.PartialObjectMetadata{}
		config.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfig"))
		err := r.client.Get(ctx, types.NamespacedName{Name: name}, config)
		if client.IgnoreNotFound(err) != nil && r.failed == nil {
			r.failed = explained(err, "reading MachineConfig "+name, "machineconfigs")
		}
		r.known[name] = config.Annotations[plan.LabelVersion]
		return r.known[name]
	})
}

func upgradePlan(r *plan.Run) *UpgradePlan {
	document := &UpgradePlan{
		TypeMeta: TypeMeta{APIVersion, "UpgradePlan"}, Namespace: r.Config.Namespace, Name: r.Config.Name, Version: r.Desired, Waits: upgradeWaits(r),
		Faults: r.Problems,
	}
	if r.VersionProblem != "" {
		document.Faults = append(document.Faults, r.VersionProblem)
	}
	if unknown, all := r.UnknownVersions(); all {
		document.Faults = append(document.Faults, fmt.Sprintf("the version of %d nodes is not known", len(unknown)))
	}
	if len(document.Faults) > 0 {
		return document
	}
	r.Wait = document.Waits
	decision := plan.DecideNodes(r)
	action := r.NodesAction(&decision)
	document.Note = upgradeNote(r, action, &decision)
	if action == plan.ActionGate {
		for _, mcp := range r.RequiredMCPs() {
			document.Pools = append(document.Pools, upgradePool(r, mcp))
		}
	}
	for _, step := range decision.Steps {
		document.Nodes = append(document.Nodes, upgradeNode(r, &step))
	}
	return document
}

// upgradeNote says what would be done where that is less than gating nodes; empty where it is not.
func upgradeNote(r *plan.Run, action plan.Action, decision *plan.Decision) string {
	note := ""
	switch {
	case action == plan.ActionGate:
		return ""
	case action == plan.ActionCleanUp:
		return "clean-up Jobs alone, for which no pool is changed"
	case len(r.Nodes) == 0:
		note = "nothing to do: the pools of the targets have no nodes"
	case decision.LeftOut > 0:
		note = fmt.Sprintf("nothing to do: %d nodes are left out, since a Job has failed; the others have the version", decision.LeftOut)
	default:
		note = "nothing to do: all nodes of the targets have the version"
	}
	if r.NeedsRestore() {
		note += "; pools and nodes are given back as they were"
	}
	return note
}

// upgradeWaits says why no node would be begun now; empty for nothing.
func upgradeWaits(r *plan.Run) string {
	var why []string
	switch spec := &r.Config.Spec; {
	case spec.Abort:
		why = append(why, "spec.abort is set, so that nothing is changed until it is false")
	case spec.Suspend:
		why = append(why, "spec.suspend is set, so that nothing is changed until it is false")
	case spec.DryRun && r.NeedsRestore():
		why = append(why, "spec.dryRun is set")
	case spec.DryRun:
		why = append(why, "spec.dryRun is set, so that nothing is changed until it is false")
	}
	if r.Wait != "" {
		why = append(why, r.Wait)
	}
	return strings.Join(why, "; ")
}

func upgradePool(r *plan.Run, mcp *mcfgv1.MachineConfigPool) UpgradePool {
	reservation := r.Reservations[mcp.Name]
	out := UpgradePool{Name: mcp.Name, Canary: mcp == r.Canary}
	if reservation != nil && reservation.UID != r.Config.UID {
		out.ClaimedBy = reservation.Run.String()
	}
	if reservation == nil {
		reservation = plan.Reserve(mcp, client.ObjectKeyFromObject(r.Config), r.Config.UID)
		reservation.Canary = out.Canary
	}
	before, reservation := reservation.Original(mcp), reservation.WithKeys(r.Keys)
	during := reservation.Gated()
	if out.Canary {
		during = reservation.Open(mcp)
	}
	out.Paused, out.WasPaused, out.Before, out.During = during.Paused, before.Paused, before.NodeSelector, during.NodeSelector
	return out
}

// upgradeNode lists the Jobs of a node that have not ended well yet.
func upgradeNode(r *plan.Run, step *plan.Step) UpgradeNode {
	out := UpgradeNode{Name: step.Status.Name, Phase: step.Status.Phase, Message: step.Status.Message}
	out.Pool, out.Version = step.Node.MCP, step.Node.Version
	if out.Phase != mutex.NodeDone {
		out.Before = r.RemainingJobs(step.Node, plan.BeforeUpgrade)
		out.After = r.RemainingJobs(step.Node, plan.AfterUpgrade)
	}
	if step.Status.Released != nil {
		out.Before = nil
	}
	return out
}

func (p *UpgradePlan) draw(to io.Writer) error {
	var out bytes.Buffer
	_ = printf(&out, "MutexRunConfig %s/%s", p.Namespace, p.Name)
	if len(p.Faults) > 0 {
		out.WriteString(" would do nothing:\n")
		for _, fault := range p.Faults {
			_ = printf(&out, "  ! %s\n", fault)
		}
		_, err := to.Write(out.Bytes())
		return err
	}
	_ = printf(&out, " aims at version %s\n", p.Version)
	if p.Waits != "" {
		_ = printf(&out, "  no node would be begun now: %s\n", p.Waits)
	}
	if p.Note != "" {
		_ = printf(&out, "  %s\n", p.Note)
	}
	if len(p.Pools) > 0 {
		out.WriteString("\nPools:\n")
	}
	for i := range p.Pools {
		p.Pools[i].draw(&out)
	}
	if len(p.Nodes) > 0 {
		out.WriteString("\nNodes, in the order of their turns:\n")
	}
	for i := range p.Nodes {
		p.Nodes[i].draw(&out, i+1)
	}
	_, err := to.Write(out.Bytes())
	return err
}

func (u *UpgradePool) draw(out *bytes.Buffer) {
	name := u.Name
	if u.Canary {
		name += " (canary)"
	}
	_ = printf(out, "  %s\n", name)
	if u.ClaimedBy != "" {
		_ = printf(out, "    ! another run has it, and is waited for: %s\n", u.ClaimedBy)
	}
	if u.Paused != u.WasPaused {
		_ = printf(out, "    ~ spec.paused: %t -> %t\n", u.WasPaused, u.Paused)
	}
	before, during := metav1.FormatLabelSelector(u.Before), metav1.FormatLabelSelector(u.During)
	if before != during {
		_ = printf(out, "    ~ spec.nodeSelector: %s\n                      -> %s\n", before, during)
	}
}

func (u *UpgradeNode) draw(out *bytes.Buffer, turn int) {
	_ = printf(out, "  %d. %s of pool %s, version %s, %s", turn, u.Name, u.Pool, orDash(u.Version), u.Phase)
	if u.Message != "" {
		_ = printf(out, " (%s)", u.Message)
	}
	out.WriteByte('\n')
	for _, jobs := range []struct {
		when  string
		names []string
	}{{"before", u.Before}, {"after", u.After}} {
		if len(jobs.names) > 0 {
			_ = printf(out, "      + Jobs %s: %s\n", jobs.when, strings.Join(jobs.names, ", "))
		}
	}
}
