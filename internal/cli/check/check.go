// Package check is `kubectl drover check`: whether Drover works in a cluster, and what the user may do with it.
package check

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	apiversion "k8s.io/apimachinery/pkg/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/version"
)

// NewCommand returns the command.
func NewCommand(o *cmdutil.Options) *cobra.Command {
	output := &cmdutil.OutputFlags{Tables: true}
	return o.Command(&cobra.Command{
		Use:   "check",
		Short: "Check that Drover works in this cluster",
		Long: `Check that the operator is up, which replica leads, which capabilities run and why others do not, the versions of server, operator and
plugin, that the admission policies and the webhook are in place, and what you may do.

A capability that is off because its CRD is not installed is no fault. A warning says what is not checked, is not in place although Drover works
without it, or what you may not do.

Exit codes: 0 Drover works, with or without warnings; 1 something has failed.`,
		Example: `  # Check Drover after you have installed it
  kubectl drover check`,
		Args: cobra.NoArgs,
	}, func(ctx context.Context, c client.WithWatch, _ []string) error {
		return run(ctx, o, c, output)
	}, output, cmdutil.DroverNamespaceFlag{Options: o})
}

func run(ctx context.Context, o *cmdutil.Options, c client.Client, output *cmdutil.OutputFlags) error {
	s := &survey{Options: o, client: c}
	s.TypeMeta = view.TypeMeta{APIVersion: view.APIVersion, Kind: "Check"}
	if err := s.server(ctx); err != nil {
		return err
	}
	s.operator(ctx)
	s.policies(ctx)
	s.webhook(ctx)
	s.rights(ctx)
	err := output.Print(o, &s.Check, func(text *cmdutil.Text) {
		var rows [][]any
		for _, item := range s.Items {
			rows = append(rows, []any{item.Check, item.State, item.Message})
		}
		text.Table(cmdutil.Columns{Always: []string{"Check", "State", "Message"}}, rows)
	})
	if failed := s.Failed(); err == nil && failed > 0 {
		return fmt.Errorf("%s failed", cmdutil.Count(failed, "check"))
	}
	return err
}

// survey checks a cluster.
type survey struct {
	view.Check
	*cmdutil.Options

	client client.Client
	// served are the API groups that the cluster serves.
	served sets.Set[string]
}

func (s *survey) add(check string, state view.CheckState, format string, args ...any) {
	s.Items = append(s.Items, view.CheckItem{Check: check, State: state, Message: fmt.Sprintf(format, args...)})
}

// oldest is the minor version of the oldest Kubernetes 1 that Drover works with.
const oldest = 31

// server checks the API server, and that it answers at all.
func (s *survey) server(ctx context.Context) error {
	var info apiversion.Info
	if err := s.decode(ctx, "/version", &info); err != nil {
		return err
	}
	var groups metav1.APIGroupList
	if err := s.decode(ctx, "/apis", &groups); err != nil {
		return err
	}
	s.served = sets.Set[string]{}
	for i := range groups.Groups {
		s.served.Insert(groups.Groups[i].Name)
	}
	minor := 0
	if _, err := fmt.Sscanf(info.Minor, "%d", &minor); err != nil || info.Major == "1" && minor < oldest {
		s.add("server", view.CheckFailed, "Kubernetes %s; Drover needs 1.%d or later", info.GitVersion, oldest)
	} else {
		s.add("server", view.CheckOK, "Kubernetes %s", info.GitVersion)
	}
	s.add("plugin", view.CheckOK, "%s", version.Version())
	return nil
}

func (s *survey) decode(ctx context.Context, path string, into any) error {
	content, err := s.Get(ctx, path)
	if err == nil {
		err = json.Unmarshal(content, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s of the API server: %w", path, err)
	}
	return nil
}
