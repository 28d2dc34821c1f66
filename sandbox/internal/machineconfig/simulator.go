package machineconfig

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// Simulator plays for one cluster.
type Simulator struct {
	opts   openshift.Options
	client client.Client
	cache  cache.Cache

	nodes *overlay[*corev1.Node]
	pools *overlay[*mcfgv1.MachineConfigPool]

	evictedLock sync.Mutex
	evicted     map[types.UID]bool // the pods that a drain has evicted, until they are gone

	versionQueue, poolQueue, nodeQueue *queue
}

// Run plays until its context ends. It needs the permissions that Rules lists. Its CRDs may come later.
func Run(ctx context.Context, config *rest.Config, opts openshift.Options) error {
	s, err := newSimulator(config, opts)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// Start plays until the returned function is called, which waits for the end and says what went wrong.
func Start(config *rest.Config, opts openshift.Options) (stop func() error, err error) {
	s, err := newSimulator(config, opts)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.run(ctx) }()
	return sync.OnceValue(func() error {
		cancel()
		return <-done
	}), nil
}

// complete fills in the defaults and validates the options.
func complete(o *openshift.Options) error {
	if o.WorkersAt == "" {
		o.WorkersAt = openshift.BeforeCompleted
	}
	if o.RebootBy == "" {
		o.RebootBy = openshift.RebootAuto
	}
	if o.EvictionRetry <= 0 {
		o.EvictionRetry = time.Second
	}
	if o.Parallel <= 0 {
		o.Parallel = 24
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return o.Validate()
}

func newSimulator(config *rest.Config, opts openshift.Options) (*Simulator, error) {
	if err := complete(&opts); err != nil {
		return nil, err
	}
	made, err := openshift.NewClient(config)
	if err != nil {
		return nil, err
	}
	watching, err := cache.New(config, cache.Options{
		Scheme: made.Scheme(), Mapper: made.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: stripPod}, &corev1.Node{}: {Transform: stripNode}},
	})
	if err != nil {
		return nil, fmt.Errorf("machineconfig: making a cache: %w", err)
	}
	s := &Simulator{
		opts: opts, client: made, cache: watching, evicted: map[types.UID]bool{},
		nodes: newOverlay[*corev1.Node](), pools: newOverlay[*mcfgv1.MachineConfigPool](),
	}
	s.versionQueue = s.newQueue(1, s.syncVersion)
	s.poolQueue = s.newQueue(1, s.syncPool)
	s.nodeQueue = s.newQueue(opts.Parallel, s.syncNode)
	return s, nil
}

func (s *Simulator) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if !s.opts.CordonOnly {
		if err := s.cache.IndexField(ctx, &corev1.Pod{}, podNode, nodeOfPod); err != nil {
			return fmt.Errorf("machineconfig: indexing pods: %w", err)
		}
	}
	var running sync.WaitGroup
	defer running.Wait()
	failed := make(chan error, 1)
	running.Go(func() { failed <- s.cache.Start(ctx) })
	if err := s.watch(ctx); err != nil {
		cancel()
		return err
	}
	if !s.cache.WaitForCacheSync(ctx) {
		cancel()
		return <-failed
	}
	for _, queue := range []*queue{s.versionQueue, s.poolQueue, s.nodeQueue} {
		running.Go(func() { queue.run(ctx) })
	}
	if s.opts.Started != nil {
		s.opts.Started()
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		cancel()
		return errors.Join(errors.New("machineconfig: the watches ended"), err)
	}
}

// watch brings events to the queues.
func (s *Simulator) watch(ctx context.Context) error {
	kinds := []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{
		{&configv1.ClusterVersion{}, handler(func(_, _ client.Object) {
			s.versionQueue.Add(openshift.ClusterVersionName)
			s.addPools(ctx)
		})},
		{&mcfgv1.MachineConfig{}, handler(s.configChanged(ctx))},
		{&mcfgv1.MachineConfigPool{}, handler(s.poolChanged(ctx))},
		{&corev1.Node{}, handler(s.nodeChanged(ctx))},
		{&corev1.Pod{}, handler(s.podChanged)},
	}
	if s.opts.CordonOnly {
		kinds = kinds[:len(kinds)-1]
	}
	for _, kind := range kinds {
		informer, err := s.cache.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err != nil {
			return fmt.Errorf("machineconfig: watching %T: %w", kind.object, err)
		}
		if _, err := informer.AddEventHandler(kind.handler); err != nil {
			return fmt.Errorf("machineconfig: watching %T: %w", kind.object, err)
		}
	}
	return nil
}

// handler calls a function with the object before and after; either may be nil.
func handler(call func(before, after client.Object)) toolscache.ResourceEventHandler {
	object := func(value any) client.Object {
		if gone, ok := value.(toolscache.DeletedFinalStateUnknown); ok {
			value = gone.Obj
		}
		found, _ := value.(client.Object)
		return found
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(added any) { call(nil, object(added)) },
		UpdateFunc: func(before, after any) { call(object(before), object(after)) },
		DeleteFunc: func(deleted any) { call(object(deleted), nil) },
	}
}

// patience bounds a pass, so that a server that does not answer does not hold a worker for ever.
const patience = 30 * time.Second
