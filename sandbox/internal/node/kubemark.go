package node

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/kubelet/certificate/bootstrap"
	utilflag "k8s.io/kubernetes/pkg/util/flag"
)

// hollowNode is the command line of a hollow node. It has the flags of Kubernetes' own kubemark, as far as a kubelet needs them, and four more of
// OpenShift's kubemark actuator, whose image was patched for them.
type hollowNode struct {
	morph, name                                   string
	kubeconfig, bootstrapKubeconfig, certificates string
	port, readOnlyPort, maxPods                   int
	labels, resources                             map[string]string
	taints                                        []corev1.Taint
	hostImages                                    bool
	health                                        healthPlan
}

// runKubemark becomes a hollow node: a real kubelet whose container runtime runs nothing.
func runKubemark() int {
	// cobra gives every command the flags of the whole program, which include the flags of all components.
	pflag.CommandLine = pflag.NewFlagSet("kubemark", pflag.ContinueOnError)
	h := &hollowNode{labels: map[string]string{}, resources: map[string]string{}}
	command := &cobra.Command{
		Use: "kubemark", Short: "A hollow node: a real kubelet whose container runtime runs nothing", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return h.run(ctx)
		},
	}
	h.addFlags(command.Flags())
	return cli.Run(command)
}

func (h *hollowNode) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&h.morph, "morph", "kubelet", "what to become; only `kubelet` is known")
	flags.StringVar(&h.name, "name", "", "name of the Node")
	flags.StringVar(&h.kubeconfig, "kubeconfig", "/kubeconfig/kubeconfig", "kubeconfig `file` of the kubelet")
	flags.StringVar(&h.bootstrapKubeconfig, "bootstrap-kubeconfig", "",
		"kubeconfig `file` of a user who may request a kubelet's certificate; with it --kubeconfig is written")
	flags.StringVar(&h.certificates, "cert-dir", "/etc/srv/", "`folder` for the certificate that the kubelet asks for")
	flags.IntVar(&h.port, "kubelet-port", 0, "port of the kubelet's own API, which does not authenticate its clients; 0 is none")
	flags.IntVar(&h.readOnlyPort, "kubelet-read-only-port", 0, "read-only port of the kubelet; 0 is none")
	flags.IntVar(&h.maxPods, "max-pods", 110, "number of pods that fit")
	flags.Var((*cliflag.ConfigurationMap)(&h.labels), "node-labels", "labels that the Node registers with, `key=value,...`")
	flags.Var(utilflag.RegisterWithTaintsVar{Value: &h.taints}, "register-with-taints", "taints that the Node registers with")
	flags.Var((*cliflag.ConfigurationMap)(&h.resources), "extended-resources",
		"capacity of the Node, `name=quantity,...`; also cpu and memory, which are 1 and 3840Mi otherwise")
	flags.BoolVar(&h.hostImages, "use-host-image-service", false, "must be false: images are played, too")
	flags.BoolVar(&h.health.once, "turn-unhealthy-after", false, "stay NotReady after --healthy-duration")
	flags.BoolVar(&h.health.again, "turn-unhealthy-periodically", false, "turn NotReady and back, over and over")
	flags.DurationVar(&h.health.healthy, "healthy-duration", time.Minute, "how long to be Ready")
	flags.DurationVar(&h.health.unhealthy, "unhealthy-duration", time.Minute, "how long to be NotReady")
}

func (h *hollowNode) run(ctx context.Context) error {
	switch {
	case h.morph != "kubelet":
		return fmt.Errorf("--morph=%s: only kubelet is known", h.morph)
	case h.name == "":
		return fmt.Errorf("--name: the Node must have one")
	case h.hostImages:
		return fmt.Errorf("--use-host-image-service: images are played here; leave it out")
	}
	client, err := h.client(ctx)
	if err != nil {
		return err
	}
	return h.play(ctx, client)
}

// client is the connection of the kubelet, which has asked for its certificate first where that is to be done.
func (h *hollowNode) client(ctx context.Context) (*rest.Config, error) {
	if h.bootstrapKubeconfig != "" {
		err := bootstrap.LoadClientCert(ctx, h.kubeconfig, h.bootstrapKubeconfig, h.certificates, types.NodeName(h.name))
		if err != nil {
			return nil, fmt.Errorf("asking for the certificate of node %s with %s: %w", h.name, h.bootstrapKubeconfig, err)
		}
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Clean(h.kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", h.kubeconfig, err)
	}
	config.ContentType, config.UserAgent = "application/vnd.kubernetes.protobuf", "hollow-kubelet"
	config.QPS, config.Burst = 10, 20
	return config, nil
}
