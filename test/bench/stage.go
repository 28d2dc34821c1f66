package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Arguments of the operator: no limit of the rate of writes, and all capabilities.
const (
	unlimitedRate   = "--metadata-writes-per-second=0"
	allCapabilities = "--controllers=*"
)

// stage is a control plane with Drover's manifests.
type stage struct {
	*bench

	cluster *cluster.Cluster
	// client is the administrator's; bare has the operator's own account.
	client, bare client.WithWatch
	// peak is the operator's largest resident size in MiB, over all that ran here.
	peak float64

	dir, token string
}

// onStage starts a control plane, installs Drover's manifests, and stops the control plane after measure returns.
func (b *bench) onStage(ctx context.Context, options cluster.Options, measure func(*stage) error) (err error) {
	progress("starting a control plane")
	options.UnsafeNoFsync = true
	s := &stage{bench: b}
	if s.cluster, err = cluster.Start(ctx, options); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.cluster.Stop()) }()
	if s.dir, err = os.MkdirTemp("", "drover-bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.dir)) }()
	if err := errors.Join(s.pin(), harness.Install(ctx, s.cluster)); err != nil {
		return err
	}
	if s.client, err = newClient(s.cluster.Admin()); err != nil {
		return err
	}
	config, err := s.cluster.AsServiceAccount(ctx, harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		return err
	}
	if s.bare, err = newClient(config); err != nil {
		return err
	}
	if s.token, err = harness.MetricsToken(ctx, s.cluster, s.client); err != nil {
		return err
	}
	return measure(s)
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := harness.Scheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// pin pins the processes of the control plane. It is called after each start of one.
func (s *stage) pin() error { return s.processors.pinControlPlane(s.cluster) }

// operator is an operator that runs. It started at begun; at ready its capabilities ran and it had nothing left to do.
type operator struct {
	*harness.Operator

	begun, ready time.Time
}

// launch starts the shipped program as it is installed; the caller stops it.
func (s *stage) launch(ctx context.Context, args ...string) (*harness.Operator, error) {
	return harness.Launch(ctx, s.cluster, s.dir, harness.Options{Binary: s.drover, Elect: true, Args: args})
}

// with runs the operator until do returns. The context of do ends when the operator does, as it does when a busy machine renews its lease too late.
func (s *stage) with(ctx context.Context, args []string, do func(context.Context, *operator) error) error {
	o := &operator{begun: time.Now()}
	var err error
	if o.Operator, err = s.launch(ctx, args...); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		<-o.Ended()
		cancel()
	}()
	// A replica that does not lead is ready, too. A leader is not while capabilities of it still start.
	if err = o.Says(ctx, ": running"); err == nil {
		err = o.Ready(ctx)
	}
	if err == nil {
		err = quiet(ctx, o.PID)
	}
	if err == nil {
		o.ready = time.Now()
		err = do(ctx, o)
	}
	if memory, err := peakMemory(o.PID); err == nil {
		s.peak = max(s.peak, memory)
	}
	if err := errors.Join(err, o.Stop()); err != nil {
		return fmt.Errorf("%w\nthe operator's log:\n%s", err, o.Log())
	}
	return nil
}

// span is the time between two moments.
type span struct {
	begun   time.Time
	seconds float64
	// cpu is the processor time of a process, in seconds.
	cpu      float64
	requests requests
}

// measure measures how long do takes, how much processor time a process uses meanwhile, and what a user requests.
func (s *stage) measure(ctx context.Context, pid int, user string, do func() error) (m span, err error) {
	mark, err := s.cluster.Audit().Sync(ctx)
	if err != nil {
		return m, err
	}
	before, err := cpuSeconds(pid)
	if err != nil {
		return m, err
	}
	m.begun = time.Now()
	if err := do(); err != nil {
		return m, err
	}
	m.seconds = time.Since(m.begun).Seconds()
	after, err := cpuSeconds(pid)
	if err != nil {
		return m, err
	}
	m.cpu = after - before
	m.requests, err = s.requestsSince(ctx, mark, user)
	return m, err
}

// addRest watches the operator at rest.
func (s *stage) addRest(ctx context.Context, o *operator, c column) error {
	progress("watching the operator for %s", s.window)
	m, err := s.measure(ctx, o.PID, harness.User, func() error { return sleep(ctx, s.window) })
	c.add("writes at rest", float64(len(m.requests.writes())), count, exactly(0))
	c.add("processor time at rest", m.cpu/m.seconds, inCores)
	return err
}

// nodes lists Nodes.
func (s *stage) nodes(ctx context.Context, options ...client.ListOption) ([]corev1.Node, error) {
	var list corev1.NodeList
	err := s.client.List(ctx, &list, options...)
	return list.Items, err
}

// merge patches an object with formatted JSON.
func (s *stage) merge(ctx context.Context, object client.Object, format string, args ...any) error {
	return s.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...)))
}

// wait waits until a condition returns no error.
func wait(ctx context.Context, every time.Duration, condition func() error) error {
	return harness.WaitLonger(ctx, time.Hour, every, condition)
}

// silent waits until the API server has answered no request for some time. It looks at the size of the audit log only, which takes no processor time
// from what is measured.
func (s *stage) silent(ctx context.Context, window time.Duration) error {
	var last cluster.AuditMark
	since := time.Now()
	return wait(ctx, window/10, func() error {
		mark, err := s.cluster.Audit().Mark()
		if mark != last {
			last, since = mark, time.Now()
		}
		if err == nil && time.Since(since) < window {
			err = errors.New("the API server still answers requests")
		}
		return err
	})
}

// follow calls a function with each object of a kind, and with each change of one, until it is stopped.
func (s *stage) follow(ctx context.Context, kind client.ObjectList, see func(client.Object)) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := s.client.Watch(ctx, kind)
	if err != nil {
		cancel()
		return nil, err
	}
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			for event := range stream.ResultChan() {
				if object, ok := event.Object.(client.Object); ok && event.Type != watch.Deleted {
					see(object)
				}
			}
			stream.Stop()
			// The API server ends a watch when the client is too slow. Another one begins with the objects that exist.
			_ = wait(ctx, time.Second, func() (err error) {
				stream, err = s.client.Watch(ctx, kind)
				return err
			})
		}
	})
	return func() {
		cancel()
		running.Wait()
	}, nil
}
