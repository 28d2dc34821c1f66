package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

func newMaintenanceCommand(o *options) *cobra.Command {
	command := &cobra.Command{
		Use:     "maintenance",
		Aliases: []string{"nm"},
		Short:   "Take nodes into maintenance and give them back",
		Long: `Take nodes into maintenance and give them back.

A node in maintenance is cordoned and drained for as long as its NodeMaintenance exists. When that is deleted the node is given back as it
was before.`,
		Args: unknownCommand,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newMaintenanceStart(o), newMaintenanceEnd(o), newMaintenanceList(o))
	return command
}

// chosenNodes are the nodes named on the line or by --selector.
type chosenNodes struct {
	selector string
}

func (n *chosenNodes) addFlags(command *cobra.Command) {
	command.Flags().StringVarP(&n.selector, "selector", "l", "", "Label selector of nodes, in the place of their names")
}

// names lists the chosen nodes, each once. Those that are named are not looked up.
func (n *chosenNodes) names(ctx context.Context, c client.Client, args []string) ([]string, error) {
	switch {
	case n.selector == "" && len(args) == 0:
		return nil, usageError("name the nodes, or choose them with --selector")
	case n.selector != "" && len(args) > 0:
		return nil, usageError("give either names of nodes or --selector")
	case n.selector != "":
		return n.selected(ctx, c)
	}
	var names []string
	for _, arg := range args {
		name, _ := trimPrefixes(arg, nodePrefixes)
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

func (n *chosenNodes) selected(ctx context.Context, c client.Client) ([]string, error) {
	selector, err := labels.Parse(n.selector)
	if err != nil {
		return nil, usageError("--selector: %w", err)
	}
	all, err := list[*corev1.Node](ctx, c, nodes, "")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, node := range all {
		if selector.Matches(labels.Set(node.Labels)) {
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("--selector %s: no node matches", n.selector)
	}
	return names, nil
}

// waiting are the flags --wait and --timeout.
type waiting struct {
	wait    bool
	timeout time.Duration
	// every is how often it looks again; zero is lookEvery.
	every time.Duration
}

// seen is what one look has found.
type seen struct {
	// text is what is printed.
	text string
	// state is what has to change before it is printed again: all of the text but the ages in it. Empty is the text.
	state string
	// done reports that there is nothing more to wait for.
	done bool
}

func (w *waiting) addFlags(command *cobra.Command, until string) {
	command.Flags().BoolVar(&w.wait, "wait", false, "Wait until "+until)
	command.Flags().DurationVar(&w.timeout, "timeout", 0, "How long to --wait; 0 for ever")
}

func (w *waiting) validate() error {
	switch {
	case w.timeout < 0:
		return usageError("--timeout %s: a time to wait cannot be negative", w.timeout)
	case w.timeout > 0 && !w.wait:
		return usageError("--timeout belongs to --wait")
	}
	return nil
}

// lookEvery is how often --wait and --watch look again.
const lookEvery = time.Second

// until looks until there is nothing more to wait for. What is seen is printed when it has changed.
func (w *waiting) until(ctx context.Context, out io.Writer, look func(context.Context) (seen, error)) error {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	ticker := time.NewTicker(cmp.Or(w.every, lookEvery))
	defer ticker.Stop()
	shown := ""
	for {
		now, err := look(ctx)
		if state := cmp.Or(now.state, now.text); err == nil && state != shown {
			shown = state
			if _, err := io.WriteString(out, now.text); err != nil {
				return err
			}
		}
		if now.done || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return fmt.Errorf("not done after %s", w.timeout)
			}
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

type maintenanceStart struct {
	*options
	chosenNodes
	waiting
	reason   string
	deadline time.Duration
	force    bool
	dryRun   string
}

func newMaintenanceStart(o *options) *cobra.Command {
	s := &maintenanceStart{options: o}
	command := &cobra.Command{
		Use:   "start (NODE... | --selector LABELS)",
		Short: "Take nodes into maintenance",
		Long: `Take nodes into maintenance, by a NodeMaintenance of the node's name for each.

kubectl drover plan --maintenance NODE shows before what would be evicted and what would block.`,
		Example: `  kubectl drover maintenance start worker-1 --reason "new disks" --wait
  kubectl drover maintenance start -l rack=7 --deadline 30m --force`,
		RunE:              run(s.run),
		ValidArgsFunction: o.completeNodes,
	}
	flags := command.Flags()
	flags.StringVar(&s.reason, "reason", "", "Why, for the people who find the node cordoned")
	flags.DurationVar(&s.deadline, "deadline", 0, "How long the drain may take; 0 for as long as it takes")
	flags.BoolVar(&s.force, "force", false, "Delete the pods that would outlast the --deadline, without asking their PodDisruptionBudgets")
	s.chosenNodes.addFlags(command)
	s.waiting.addFlags(command, "the nodes are drained")
	addDryRun(command, &s.dryRun)
	return command
}

func (s *maintenanceStart) validate() error {
	switch {
	case s.deadline < 0:
		return usageError("--deadline %s: cannot be negative", s.deadline)
	case s.force && s.deadline == 0:
		return usageError("--force needs a --deadline")
	}
	if err := validateDryRun(s.dryRun); err != nil {
		return err
	}
	return s.waiting.validate()
}

func (s *maintenanceStart) run(ctx context.Context, args []string) error {
	if err := s.validate(); err != nil {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	names, err := s.names(ctx, c, args)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		if err := s.create(ctx, c, name); err != nil {
			failures = append(failures, err)
		}
	}
	if len(failures) > 0 || !s.wait || s.dryRun != "none" {
		return errors.Join(failures...)
	}
	return s.until(ctx, s.Out, func(ctx context.Context) (seen, error) { return drainsOf(ctx, c, names) })
}

// create makes one NodeMaintenance, of the older group where only that is served.
func (s *maintenanceStart) create(ctx context.Context, c client.Client, node string) error {
	object := &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: node}, Spec: medik8s.NodeMaintenanceSpec{NodeName: node, Reason: s.reason},
	}
	if s.deadline > 0 {
		object.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: s.deadline}, Force: s.force}
	}
	made := &maintained{Object: object, kind: maintenances}
	err := s.send(ctx, c, object)
	if missing(err) && object.Spec.Drain == nil {
		older := &kubevirt.NodeMaintenance{ObjectMeta: object.ObjectMeta, Spec: kubevirt.NodeMaintenanceSpec{NodeName: node, Reason: s.reason}}
		older.ResourceVersion = ""
		made = &maintained{Object: older, kind: olderMaintenances}
		err = s.send(ctx, c, older)
	}
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("node %s: %s exists already; kubectl drover drain-status %[1]s shows how far it is", node, made)
	}
	if err != nil {
		return refused(err, "taking node "+node+" into maintenance")
	}
	_, err = fmt.Fprintf(s.Out, "%s created%s\n", made, dryRunNote(s.dryRun))
	return err
}

func (s *maintenanceStart) send(ctx context.Context, c client.Client, object client.Object) error {
	if s.dryRun == "client" {
		return nil
	}
	options := []client.CreateOption{client.FieldOwner("kubectl-drover")}
	if s.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	return c.Create(ctx, object, options...)
}

// drainsOf says in a line for each node how far it is, and whether all are drained.
func drainsOf(ctx context.Context, c client.Client, names []string) (seen, error) {
	all, err := maintenancesOf(ctx, c)
	if err != nil {
		return seen{}, err
	}
	now := seen{done: true}
	for _, name := range names {
		found := ofNode(all, name)
		if len(found) == 0 {
			return seen{}, fmt.Errorf("node %s: its NodeMaintenance is gone", name)
		}
		m := found[0]
		if m.status.Phase == medik8s.PhaseFailed {
			return seen{}, fmt.Errorf("node %s: %s", name, m.status.LastError)
		}
		if m.drained() {
			now.text += fmt.Sprintf("node %s is drained\n", name)
			continue
		}
		now.done = false
		now.text += fmt.Sprintf("node %s: %d%%, %s\n", name, m.status.DrainProgress, m.waitsFor())
	}
	return now, nil
}

// waitsFor says what is to be waited for.
func (m *maintained) waitsFor() string {
	if ready := m.condition(conditionReady); ready.Message != "" {
		return ready.Message
	}
	if m.status.LastError != "" {
		return m.status.LastError
	}
	return "not looked at by the operator yet"
}

type maintenanceEnd struct {
	*options
	chosenNodes
	waiting
	dryRun string
}

func newMaintenanceEnd(o *options) *cobra.Command {
	e := &maintenanceEnd{options: o}
	command := &cobra.Command{
		Use:   "end (NODE... | --selector LABELS)",
		Short: "Give nodes back",
		Long: `Give nodes back as they were before, by deleting their NodeMaintenances, of whatever name and group they are.

With --selector, nodes that are not in maintenance are passed over.`,
		Example:           `  kubectl drover maintenance end worker-1 --wait`,
		RunE:              run(e.run),
		ValidArgsFunction: o.completeMaintained,
	}
	e.chosenNodes.addFlags(command)
	e.waiting.addFlags(command, "the nodes have been given back")
	addDryRun(command, &e.dryRun)
	return command
}

func (e *maintenanceEnd) run(ctx context.Context, args []string) error {
	if err := errors.Join(validateDryRun(e.dryRun), e.validate()); err != nil {
		return err
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	names, err := e.names(ctx, c, args)
	if err != nil {
		return err
	}
	if err := e.removeAll(ctx, c, names); err != nil || !e.wait || e.dryRun != "none" {
		return err
	}
	return e.until(ctx, e.Out, func(ctx context.Context) (seen, error) {
		all, err := maintenancesOf(ctx, c)
		left := 0
		for _, name := range names {
			left += len(ofNode(all, name))
		}
		if err != nil || left > 0 {
			return seen{}, err
		}
		return seen{text: "given back\n", done: true}, nil
	})
}

func (e *maintenanceEnd) removeAll(ctx context.Context, c client.Client, names []string) error {
	all, err := maintenancesOf(ctx, c)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		found := ofNode(all, name)
		if len(found) == 0 && e.selector == "" {
			failures = append(failures, fmt.Errorf("node %s is not in maintenance", name))
		}
		for _, m := range found {
			if err := e.remove(ctx, c, m); err != nil {
				failures = append(failures, err)
			}
		}
	}
	return errors.Join(failures...)
}

// remove deletes exactly the object that was read.
func (e *maintenanceEnd) remove(ctx context.Context, c client.Client, m *maintained) error {
	uid := m.GetUID()
	options := []client.DeleteOption{client.Preconditions{UID: &uid}}
	if e.dryRun == "server" {
		options = append(options, client.DryRunAll)
	}
	if e.dryRun != "client" {
		if err := client.IgnoreNotFound(c.Delete(ctx, m.Object, options...)); err != nil {
			return refused(err, "ending the maintenance of node "+m.spec.NodeName)
		}
	}
	_, err := fmt.Fprintf(e.Out, "%s deleted%s\n", m, dryRunNote(e.dryRun))
	return err
}

func dryRunNote(dryRun string) string {
	if dryRun == "none" {
		return ""
	}
	return " (" + dryRun + " dry run)"
}
