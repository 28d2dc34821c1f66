package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/cli"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/vcenter"
)

// vcenterFlags are what the program is called with.
type vcenterFlags struct {
	kubeconfig, ready string
	options           vcenter.Options
	guests            vcenter.GuestOptions
}

// runVCenter plays a vCenter, and the guests of its virtual machines.
func runVCenter() int {
	// cobra gives every command the flags of the whole program, which include the flags of all components.
	pflag.CommandLine = pflag.NewFlagSet("vcenter", pflag.ContinueOnError)
	given := vcenterFlags{}
	command := &cobra.Command{
		Use: "vcenter", Short: "Plays a vCenter, and the guests of its virtual machines", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return playVCenter(ctx, &given)
		},
	}
	flags := command.Flags()
	flags.StringVar(&given.kubeconfig, "kubeconfig", "", "kubeconfig `file` with which guests register their Nodes; empty for guests that never boot")
	flags.StringVar(&given.ready, "ready-file", "", "`file` to write the place of the vCenter to, as JSON")
	flags.StringVar(&given.options.ClusterID, "cluster-id", "", "`name` of the cluster that the vCenter has a tag of")
	flags.DurationVar(&given.options.CloneDelay, "clone-delay", 0, "how long a clone takes")
	flags.DurationVar(&given.guests.BootDelay, "boot-delay", 0, "how long it takes from power on until the Node registers")
	return cli.Run(command)
}

func playVCenter(ctx context.Context, given *vcenterFlags) error {
	server, err := vcenter.Start(given.options)
	if err != nil {
		return err
	}
	defer server.Stop()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	control := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
	go func() {
		if err := control.Serve(listener); err != nil && !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintf(os.Stderr, "vcenter: %v\n", err)
		}
	}()
	defer func() { _ = control.Close() }()
	site := server.Site()
	site.Control, site.PID = "http://"+listener.Addr().String(), os.Getpid()
	if err := writeSite(given.ready, &site); err != nil {
		return err
	}
	if given.kubeconfig == "" {
		<-ctx.Done()
		return nil
	}
	return playGuests(ctx, server, given)
}

// playGuests lets the virtual machines become Nodes.
func playGuests(ctx context.Context, server *vcenter.Server, given *vcenterFlags) error {
	config, err := clientcmd.BuildConfigFromFlags("", given.kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig %s: %w", given.kubeconfig, err)
	}
	config.QPS = -1
	nodes, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("creating a client: %w", err)
	}
	given.guests.Log = func(err error) { fmt.Fprintf(os.Stderr, "vcenter: %v\n", err) }
	server.PlayGuests(ctx, nodes, given.guests)
	return nil
}

// writeSite writes the place of the vCenter to a file, at once.
func writeSite(file string, site *vcenter.Site) error {
	if file == "" {
		return nil
	}
	text, err := json.Marshal(site)
	if err != nil {
		return fmt.Errorf("writing the place of the vCenter: %w", err)
	}
	written := filepath.Clean(file) + ".new"
	if err := os.WriteFile(written, text, 0o600); err != nil {
		return fmt.Errorf("writing the place of the vCenter: %w", err)
	}
	if err := os.Rename(written, filepath.Clean(file)); err != nil {
		return fmt.Errorf("writing the place of the vCenter: %w", err)
	}
	return nil
}
