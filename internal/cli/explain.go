package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata/plan"
)

var nodePrefixes = []string{"node/", "nodes/", "no/"}

const explainExample = `  # Whose the labels, annotations and taints of a node are
  kubectl drover explain node worker-1

  # With everybody who wrote an entry, and values in full
  kubectl drover explain worker-1 -o wide`

type explainCommand struct {
	*options
	output output
}

func newExplainCommand(o *options) *cobra.Command {
	e := &explainCommand{options: o}
	command := &cobra.Command{
		Use:   "explain [node] NAME",
		Short: "Say whose every label, annotation and taint of a node is",
		Long: `Say for every label, annotation and taint of a Node whose it is: Drover's, with the pool and the generation that it comes from, or
of the field manager that wrote it; and how it compares with what its pool declares.

The writers of a taint are those of the whole list of taints, since the API server keeps no others.`,
		Example:           explainExample,
		RunE:              run(e.run),
		ValidArgsFunction: o.completeExplain,
	}
	e.output.addFlags(command)
	o.addAllNamespaces(command)
	o.addProtect(command)
	return command
}

func (e *explainCommand) run(ctx context.Context, args []string) error {
	name, err := nodeArgument(args)
	if err != nil {
		return err
	}
	if err := e.output.validate(); err != nil {
		return err
	}
	c, err := e.connect()
	if err != nil {
		return err
	}
	explanation, err := e.explain(ctx, c, name)
	if err != nil {
		return err
	}
	if !e.output.table() {
		return e.output.print(e.Out, &explanation)
	}
	return drawExplanation(e.Out, explanation, e.now(), e.output.wide())
}

// nodeArgument reads NAME, node/NAME, or node NAME.
func nodeArgument(args []string) (string, error) {
	if len(args) == 2 && (args[0] == "node" || args[0] == "nodes" || args[0] == "no") {
		args = args[1:]
	}
	if len(args) != 1 {
		return "", usageError("explain takes the name of one node, not %d names", len(args))
	}
	name, _ := trimPrefixes(args[0], nodePrefixes)
	if name == "" {
		return "", usageError("the name of the node is empty")
	}
	return name, nil
}

func (e *explainCommand) explain(ctx context.Context, c client.Client, name string) (NodeExplanation, error) {
	protected, err := e.protected()
	if err != nil {
		return NodeExplanation{}, err
	}
	node := &corev1.Node{}
	if err := c.Get(ctx, types.NamespacedName{Name: name}, node); apierrors.IsNotFound(err) {
		return NodeExplanation{}, notFound("node", name, "the cluster", nodeNames(ctx, c))
	} else if err != nil {
		return NodeExplanation{}, explained(err, fmt.Sprintf("reading node %q", name), "nodes")
	}
	objects := plan.Objects{Nodes: map[string]*corev1.Node{name: node}}
	var note string
	if objects.Sets, objects.Machines, err = declaring(ctx, c, e.namespace()); err != nil {
		// Whose an entry is stands on the Node; only what is declared is not known then.
		note = "what is declared is not known: " + err.Error()
	}
	survey := plan.SurveyOf(objects, protected, e.now())
	explanation := explainNode(node, itemOf(survey, name), protected, e.now())
	if note != "" {
		explanation.Notes = []string{note}
	} else if explanation.Machine == "" && e.namespace() != "" {
		explanation.Notes = append(explanation.Notes, "looked for its Machine in "+e.where()+" only; --all-namespaces looks everywhere")
	}
	return explanation, nil
}

// itemOf finds the Machine of a Node. Of several that claim it the first is shown; its state says that there are more.
func itemOf(survey plan.Survey, node string) *plan.Item {
	for i := range survey.Items {
		if found := survey.Items[i].Node; found != nil && found.Name == node {
			return &survey.Items[i]
		}
	}
	return nil
}
