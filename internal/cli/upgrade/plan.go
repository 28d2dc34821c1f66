package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// versionFlag is --upgrade-node-version: where the version of a node is read, as in the operator's configuration.
type versionFlag struct{ source string }

var versionSources = []plan.VersionSource{plan.VersionAuto, plan.VersionLabel, plan.VersionConfig}

// AddFlags adds the flag to a command.
func (f *versionFlag) AddFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.source, "upgrade-node-version", string(plan.VersionAuto),
		"Where to read the version of a node, as the operator's setting of that name: Auto, Label, or MachineConfig")
}

// Validate checks the flags.
func (f *versionFlag) Validate() error {
	if slices.Contains(versionSources, plan.VersionSource(f.source)) {
		return nil
	}
	return cmdutil.UsageError("--upgrade-node-version %q: must be Auto, Label or MachineConfig", f.source)
}

type planOptions struct {
	*cmdutil.Options
	output  cmdutil.OutputFlags
	version versionFlag
}

func newPlanCommand(shared *cmdutil.Options) *cobra.Command {
	o := &planOptions{Options: shared}
	return ofRun(shared, &cobra.Command{
		Use:   "plan RUN",
		Short: "Show what a run would do",
		Long: `Preview a run: the nodes in their order, their Jobs, and the changes of MachineConfigPools and their selectors. The command changes
nothing.

Exit codes: 0 the run would do what the command shows, 1 the run would do nothing, as the plan says, or an error.`,
		Example: `  # Show what a run would do
  kubectl drover upgrade plan workers`,
	}, o.run, &o.output, &o.version)
}

func (o *planOptions) run(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) error {
	input, err := o.observe(ctx, c, run)
	if err != nil {
		return err
	}
	versions := &versionReader{client: c, from: plan.VersionSource(o.version.source), known: map[string]string{}}
	input.VersionOf = func(node *corev1.Node) string { return versions.of(ctx, node) }
	resolved := plan.Resolve(input)
	if versions.err != nil {
		return versions.err
	}
	document := view.NewUpgradePlan(resolved)
	if err := o.output.Print(o.Options, document, func(text *cmdutil.Text) { drawPlan(text, document) }); err != nil {
		return err
	}
	if len(document.Faults) > 0 {
		return fmt.Errorf("MutexRunConfig %s/%s would do nothing; the plan says why", run.Namespace, run.Name)
	}
	return nil
}

// observe reads what the decision about a run depends on.
func (o *planOptions) observe(ctx context.Context, c client.Client, run *mutex.MutexRunConfig) (in *plan.Input, err error) {
	in = &plan.Input{Config: run, Now: o.Now()}
	if in.Rules, err = byKey[*mutex.MutexRule](ctx, c); err != nil {
		return nil, err
	}
	if in.Targets, err = byKey[*mutex.MutexTarget](ctx, c); err != nil {
		return nil, err
	}
	if in.Jobs, err = byKey[*batchv1.Job](ctx, c, client.MatchingLabels{plan.LabelRun: string(run.UID)}); err != nil {
		return nil, err
	}
	if in.MCPs, err = cmdutil.List[*mcfgv1.MachineConfigPool](ctx, c, ""); err != nil {
		return nil, err
	}
	if in.Nodes, err = cmdutil.List[*corev1.Node](ctx, c, ""); err != nil {
		return nil, err
	}
	version := &configv1.ClusterVersion{}
	switch err := c.Get(ctx, types.NamespacedName{Name: plan.ClusterVersion}, version); {
	case err == nil:
		in.Version = version
	case client.IgnoreNotFound(err) != nil:
		return nil, cmdutil.Explain(err, "reading ClusterVersion "+plan.ClusterVersion, configv1.Resource("clusterversions"))
	}
	return in, nil
}

// byKey returns all objects of a kind by namespace and name.
func byKey[T client.Object](ctx context.Context, c client.Client, options ...client.ListOption) (map[types.NamespacedName]T, error) {
	all, err := cmdutil.List[T](ctx, c, "", options...)
	objects := make(map[types.NamespacedName]T, len(all))
	for _, object := range all {
		objects[client.ObjectKeyFromObject(object)] = object
	}
	return objects, err
}

// versionReader returns the version of nodes, and reads each rendered MachineConfig once.
type versionReader struct {
	client client.Client
	from   plan.VersionSource
	known  map[string]string
	// err is the first failure; a MachineConfig that does not exist is none.
	err error
}

func (r *versionReader) of(ctx context.Context, node *corev1.Node) string {
	return plan.VersionOf(node, r.from, func(name string) string {
		if version, known := r.known[name]; known {
			return version
		}
		config := &metav1.PartialObjectMetadata{}
		config.SetGroupVersionKind(mcfgv1.GroupVersion.WithKind("MachineConfig"))
		err := r.client.Get(ctx, types.NamespacedName{Name: name}, config)
		if client.IgnoreNotFound(err) != nil && r.err == nil {
			r.err = cmdutil.Explain(err, "reading MachineConfig "+name, mcfgv1.Resource("machineconfigs"))
		}
		r.known[name] = config.Annotations[plan.LabelVersion]
		return r.known[name]
	})
}

func drawPlan(text *cmdutil.Text, p *view.UpgradePlan) {
	text.Printf("MutexRunConfig %s/%s", p.Namespace, p.Name)
	if len(p.Faults) > 0 {
		text.Printf(" would do nothing:\n")
		for _, fault := range p.Faults {
			text.Printf("  ! %s\n", fault)
		}
		return
	}
	text.Printf(" upgrades to version %s\n", p.Version)
	if p.Waits != "" {
		text.Printf("  no node would start now: %s\n", p.Waits)
	}
	if p.Note != "" {
		text.Printf("  %s\n", p.Note)
	}
	if len(p.MCPs) > 0 {
		text.Printf("\nMachineConfigPools:\n")
	}
	for _, mcp := range p.MCPs {
		drawMCP(text, mcp)
	}
	if len(p.Nodes) > 0 {
		text.Printf("\nNodes, in their order:\n")
	}
	for i, node := range p.Nodes {
		text.Printf("  %d. %s of MachineConfigPool %s, version %s, %s", i+1, node.Name, node.MCP, orDash(node.Version), node.Phase)
		if node.Message != "" {
			text.Printf(" (%s)", node.Message)
		}
		text.Printf("\n")
		if len(node.Before) > 0 {
			text.Printf("      + Jobs before: %s\n", strings.Join(node.Before, ", "))
		}
		if len(node.After) > 0 {
			text.Printf("      + Jobs after: %s\n", strings.Join(node.After, ", "))
		}
	}
}

func drawMCP(text *cmdutil.Text, mcp view.UpgradeMCP) {
	canary := ""
	if mcp.Canary {
		canary = " (canary)"
	}
	text.Printf("  %s%s\n", mcp.Name, canary)
	if mcp.ClaimedBy != "" {
		text.Printf("    ! another run has reserved it; this run waits for it: %s\n", mcp.ClaimedBy)
	}
	if mcp.Paused != mcp.WasPaused {
		text.Printf("    ~ spec.paused: %t -> %t\n", mcp.WasPaused, mcp.Paused)
	}
	if before, during := metav1.FormatLabelSelector(mcp.Before), metav1.FormatLabelSelector(mcp.During); before != during {
		text.Printf("    ~ spec.nodeSelector: %s\n                      -> %s\n", before, during)
	}
}
