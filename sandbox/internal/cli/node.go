package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/realnode"
)

func newNode(s *settings) *cobra.Command {
	command := &cobra.Command{
		Use:   "node",
		Short: "Nodes with real kubelets and real containers; needs root and containerd",
		Long: `Nodes with real kubelets and real containers.

Each has containerd, a kubelet and its Pods' network in a network namespace of its own, and all its files in the sandbox's folder. Images are
imported from archives; Pods use them with imagePullPolicy Never or IfNotPresent. ` + realnode.BusyboxImage + ` is always there.
The first one builds drover-sandbox-node, the program of such nodes. Without root, containerd, runc, the CNI plugins and busybox-static it says
what is missing.`,
		Example: `  drover-sandbox node add --count 2
  drover-sandbox kubectl run hello --image ` + realnode.BusyboxImage + ` --image-pull-policy Never --restart Never --command -- echo hello
  drover-sandbox node remove real-1`,
	}
	command.AddCommand(newNodeAdd(s), newNodeRemove(s))
	return command
}

func newNodeAdd(s *settings) *cobra.Command {
	var count int
	var prefix string
	options := realnode.Options{}
	command := &cobra.Command{
		Use:   "add",
		Short: "Add nodes and wait until they are Ready",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if count < 1 {
				return errors.New("--count must be 1 at least")
			}
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			for i := 1; len(options.Names) < count; i++ {
				if name := fmt.Sprintf("%s-%d", prefix, i); !taken(c, name) {
					options.Names = append(options.Names, name)
				}
			}
			if err := buildNodeProgram(command.Context(), command.ErrOrStderr()); err != nil {
				return err
			}
			if err := realnode.Add(command.Context(), c, options); err != nil {
				return err
			}
			_, err = fmt.Fprintf(command.ErrOrStderr(), "Ready: %s\n", strings.Join(options.Names, ", "))
			return err
		},
	}
	flags := command.Flags()
	flags.IntVar(&count, "count", 1, "how many nodes")
	flags.StringVar(&prefix, "prefix", "real", "what their names begin with")
	flags.StringToStringVar(&options.Labels, "label", nil, "labels that the Nodes register with, `key=value,...`")
	flags.StringSliceVar(&options.Images, "image", nil, "archive `file` of an image that Pods may use")
	flags.IntVar(&options.MaxPods, "max-pods", 0, "how many Pods fit on each; 30 without it")
	return command
}

// buildNodeProgram builds the program of the nodes where it is missing and this program is in a folder of the repository: no demo and few tests
// need it.
func buildNodeProgram(ctx context.Context, output io.Writer) error {
	_, missing := cluster.NodeBinary()
	if missing == nil {
		return nil
	}
	self, err := cluster.Binary()
	if err != nil {
		return err
	}
	script := filepath.Join(filepath.Dir(self), "..", "hack", "build.sh")
	if _, err := os.Stat(script); err != nil {
		return missing
	}
	command := exec.CommandContext(ctx, script, "node")
	command.Stdout, command.Stderr = output, output
	// It ends its compilers then, and would leave them behind when it is killed.
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	if err := command.Run(); err != nil {
		return fmt.Errorf("building drover-sandbox-node: %w", err)
	}
	return nil
}

// taken reports whether a node of that name runs.
func taken(c *cluster.Cluster, name string) bool {
	_, err := os.Stat(string(realnode.FolderOf(c, name)))
	return err == nil
}

func newNodeRemove(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "remove NAME...",
		Short: "End a node with all its containers, and remove its Node",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, names []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			var failures []error
			for _, name := range names {
				failures = append(failures, realnode.Remove(command.Context(), c, name))
			}
			return errors.Join(failures...)
		},
	}
}
