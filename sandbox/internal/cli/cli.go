// Package cli is the command line of drover-sandbox.
package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-io/drover/sandbox/internal/controlplane"
	"github.com/drover-io/drover/sandbox/internal/lifeline"
	"github.com/drover-io/drover/test/cluster"
)

// runCommand turns the process into a component without anything of the sandbox: drover-sandbox run kubectl ...
const runCommand = "run"

// Main runs drover-sandbox with the arguments of the process and returns its exit code. Called as a component
// (drover-sandbox etcd ...) the process becomes that component.
func Main(args []string) int {
	line, err := lifeline.Inherit()
	if err != nil {
		return fail(err)
	}
	if name, ok := controlplane.Programs.Requested(args[0]); ok {
		if name == kubectlName {
			preferSandbox()
		}
		controlplane.Programs.Run(name, args[1:])
	}
	if len(args) > 1 {
		if code, done := become(line, args[1], args[2:]); done {
			return code
		}
	}
	return execute(args[1:])
}

// become runs the program that the process is named after, or that follows the word run. done reports whether there was one, which has ended by then.
func become(line *lifeline.Line, name string, args []string) (code int, done bool) {
	switch {
	case name == cluster.MindCommand:
		if err := mindProcess(line, args); err != nil {
			return fail(err), true
		}
		return 0, true
	case name == runCommand && len(args) > 0:
		line.ExitWithParent()
		controlplane.Programs.Run(args[0], args[1:])
	case name != kubectlName && slices.Contains(controlplane.Programs.Names(), name):
		line.ExitWithParent()
		controlplane.Programs.Run(name, args)
	}
	return 0, false
}

// execute runs a command of the sandbox itself.
func execute(args []string) int {
	// cobra adds the flags of the whole program to every command, and the components have many.
	pflag.CommandLine = pflag.NewFlagSet("drover-sandbox", pflag.ContinueOnError)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := newRoot()
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		return fail(err)
	}
	return 0
}

// fail says what went wrong and returns the exit code.
func fail(err error) int {
	plain := strings.NewReplacer("machineconfig: ", "", "cluster: ", "").Replace(err.Error())
	fmt.Fprintf(os.Stderr, "drover-sandbox: %s\n", plain)
	return 1
}

func newRoot() *cobra.Command {
	s := &settings{}
	root := &cobra.Command{
		Use:   "drover-sandbox",
		Short: "A Kubernetes control plane in one binary, for demos, tests and benchmarks",
		Long: `A Kubernetes control plane in one binary, for demos, tests and benchmarks.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok run as processes of their own on 127.0.0.1, with
TLS and RBAC as in a real cluster. Their data, certificates and logs are in one folder: --data, or else the environment
variable ` + dataEnv + `, or else drover-sandbox in the user's cache folder.`,
		Example: `  eval "$(drover-sandbox up)"
  drover-sandbox pool create workers --machines 50
  drover-sandbox kubectl get nodes
  drover-sandbox down --purge`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().StringVar(&s.data, "data", "", "`folder` of the sandbox's data, certificates and logs")
	root.AddCommand(newUp(s), newDown(s), newStatus(s), newLogs(s), newKubectl(s), newKill(s), newStart(s), newPool(s), newOpenShift(s),
		newVSphere(s), newNode(s), newRun(), newVersion())
	return root
}

// newRun only documents what Main does before any flag is read.
func newRun() *cobra.Command {
	return &cobra.Command{
		Use:   runCommand + " COMPONENT [ARGUMENT...]",
		Short: "Run a component's program with its own flags",
		Long:  "Run a component's program with its own flags, apart from any sandbox: " + strings.Join(controlplane.Programs.Names(), ", ") + ".",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(*cobra.Command, []string) error {
			return fmt.Errorf("%s must be the first argument", runCommand)
		},
	}
}
