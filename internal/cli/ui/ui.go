// Package ui is `kubectl drover ui`: a page on the loopback interface that shows the fleet, what waits and why, and each node.
//
// The page reads the cluster with the user's own kubeconfig and rights, writes nothing without --write, and keeps nothing. Watches fill stores of a
// bounded size; package model computes what the page shows from them, and server-sent events bring the differences to the browser. Plans and actions
// run the commands of the command line in this process. The folder ui of the repository
// has the sources of the page.
package ui

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
)

type options struct {
	*cmdutil.Options
	protect cmdutil.ProtectFlags
	command *cobra.Command
	port    uint16
	write   bool
}

// NewCommand returns the command.
func NewCommand(shared *cmdutil.Options) *cobra.Command {
	o := &options{Options: shared}
	o.command = shared.Command(&cobra.Command{
		Use:   "ui",
		Short: "Show the fleet in a browser",
		Long: `Serve a page that shows every node with its state, everything that waits or is blocked with the reason, and who owns what on a node.

The page is served on the loopback interface of this computer. It reads the cluster with your kubeconfig and your rights, and changes nothing
unless you set --write: then you can pause and resume objects on it, and start and end maintenances. The command prints the address of the page,
with a token that only you have, and runs until you press Ctrl-C.`,
		Example: `  # Show the fleet
  kubectl drover ui

  # On a port of your choice
  kubectl drover ui --port 8090

  # Start and end maintenances on the page
  kubectl drover ui --write`,
		Args: cobra.NoArgs,
	}, o.run, &o.protect)
	o.command.Flags().Uint16Var(&o.port, "port", 0, "Port of the page on the loopback interface; zero is a free one")
	o.command.Flags().BoolVar(&o.write, "write", false,
		"If true, the page can pause and resume objects, and start and end maintenances, each after a dry run by the API server")
	return o.command
}

// namespaces returns where namespaced kinds are read: in the namespace of --namespace, or in all. A user who may not list in all has the default one.
func (o *options) namespaces() []string {
	if given := o.GivenNamespace(); given != "" {
		return []string{given}
	}
	return []string{"", cmdutil.DefaultNamespace}
}

// newHTTPServer returns what serves a handler. Its times end connections that send or read slowly, which needs no token. A command has to end before
// its answer is written, and streams extend their time with each event.
func newHTTPServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler: handler, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, WriteTimeout: commandTimeout + time.Minute,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		// Others on the computer must not write into the user's terminal.
		ErrorLog: log.New(io.Discard, "", 0),
	}
}

// shutdownTimeout is how long requests may take after an interrupt.
const shutdownTimeout = time.Second

func (o *options) run(ctx context.Context, c client.WithWatch, _ []string) error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(o.port)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w", address, err)
	}
	cluster := newCluster(c, o.namespaces(), o.protect.Protected(), o.Now)
	cluster.write = o.write
	token := rand.Text()
	handler := newServer(cluster, listener.Addr().String(), token)
	handler.flags = flagsOf(o.command, o.Options)
	server := newHTTPServer(handler)
	// The token is behind the #: a browser does not send it, and the page removes it from the address.
	if _, err := fmt.Fprintf(o.Out, "Open http://%s/#token=%s\nPress Ctrl-C to end.\n", listener.Addr(), token); err != nil {
		return errors.Join(err, listener.Close())
	}
	group, within := errgroup.WithContext(ctx)
	group.Go(func() error { return cluster.run(within) })
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serving the page: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-within.Done()
		handler.close()
		late, cancel := context.WithTimeout(context.WithoutCancel(within), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(late); err != nil {
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}
