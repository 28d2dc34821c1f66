package cli

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-io/drover/sandbox/internal/controlplane"
)

const (
	kubectlName   = "kubectl"
	kubeconfigEnv = "KUBECONFIG"
)

func newKubectl(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   kubectlName + " [ARGUMENT...]",
		Short: "Run kubectl as the sandbox's administrator",
		Long: `Run kubectl as the sandbox's administrator, whatever KUBECONFIG says. --data goes before the word kubectl.

A symbolic link called kubectl to drover-sandbox is kubectl too, which uses the sandbox unless KUBECONFIG is set.`,
		DisableFlagParsing: true, // they are kubectl's
		RunE: func(command *cobra.Command, args []string) error {
			c, err := s.open(command.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := os.Setenv(kubeconfigEnv, c.AdminKubeconfig()); err != nil {
				return err
			}
			controlplane.Programs.Run(kubectlName, args)
			return nil
		},
	}
}

// preferSandbox makes kubectl use the sandbox where nothing else is asked for and there is one.
func preferSandbox() {
	if _, ok := os.LookupEnv(kubeconfigEnv); ok {
		return
	}
	if c, err := (&settings{}).open(nil); err == nil {
		_ = os.Setenv(kubeconfigEnv, c.AdminKubeconfig())
	}
}
