package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machineapi/machinejson"
)

// bareReads is how long it takes on the same cluster only to read Machines and Nodes: the floor of commands and of starts.
type bareReads struct {
	// Lists is the time in seconds of a client that reads them as kubectl drover does, and drops them. Caches is that of a client that keeps them in the
	// caches of controller-runtime.
	Lists  float64 `json:"listsSeconds"`
	Caches float64 `json:"cachesSeconds"`
}

// pageOfNodes is how many Nodes kubectl drover reads at once.
const pageOfNodes = 500

// readBare measures both.
func (b *stage) readBare(ctx context.Context) (r bareReads, err error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), machinev1beta1.Install(scheme)); err != nil {
		return r, err
	}
	begun := time.Now()
	if err := b.listAll(ctx, scheme); err != nil {
		return r, err
	}
	r.Lists = time.Since(begun).Seconds()
	begun = time.Now()
	err = b.fillCaches(ctx, scheme)
	r.Caches = time.Since(begun).Seconds()
	return r, err
}

// listAll reads all Machines in one list, and Nodes in pages at the same time.
func (b *stage) listAll(ctx context.Context, scheme *runtime.Scheme) error {
	machines, err := machinejson.Client(b.Cluster.Admin(), serializer.NewCodecFactory(scheme))
	if err != nil {
		return err
	}
	nodes, err := client.New(b.Cluster.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		body, err := machinejson.Stream(ctx, machines, b.namespace(), metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("listing Machines: %w", err)
		}
		_, err = io.Copy(io.Discard, body)
		return errors.Join(err, body.Close())
	})
	group.Go(func() error {
		page := &corev1.NodeList{}
		for more := true; more; more = page.Continue != "" {
			if err := nodes.List(ctx, page, client.Limit(pageOfNodes), client.Continue(page.Continue)); err != nil {
				return fmt.Errorf("listing Nodes: %w", err)
			}
		}
		return nil
	})
	return group.Wait()
}

// fillCaches fills caches with all Machines and Nodes, without the fields that no controller needs, and drops them.
func (b *stage) fillCaches(ctx context.Context, scheme *runtime.Scheme) error {
	full, err := cache.New(b.Cluster.Admin(), cache.Options{Scheme: scheme, DefaultTransform: cache.TransformStripManagedFields()})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, kind := range []client.Object{&corev1.Node{}, &machinev1beta1.Machine{}} {
		if _, err := full.GetInformer(ctx, kind, cache.BlockUntilSynced(false)); err != nil {
			return err
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- full.Start(ctx) }()
	synced := full.WaitForCacheSync(ctx)
	cancel()
	if err := <-ended; err != nil || synced {
		return err
	}
	return errors.New("the caches were not filled")
}
