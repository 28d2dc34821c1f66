package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// Stage is a control plane with Drover's manifests.
type Stage struct {
	Cluster *cluster.Cluster
	// Client is the administrator's.
	Client client.WithWatch

	binary, dir string
}

// NewStage starts a control plane and installs Drover's manifests. The caller closes it.
func NewStage(ctx context.Context, settings Settings, options cluster.Options) (*Stage, error) {
	Progress("starting a control plane")
	options.UnsafeNoFsync = true
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	s := &Stage{Cluster: c, binary: settings.Binary}
	if s.dir, err = os.MkdirTemp("", "drover-bench-"); err == nil {
		err = harness.Install(ctx, c)
	}
	if err == nil {
		s.Client, err = newClient(c.Admin())
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Close stops the control plane.
func (s *Stage) Close() {
	if err := errors.Join(s.Cluster.Stop(), os.RemoveAll(s.dir)); err != nil {
		Progress("stopping the control plane: %v", err)
	}
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := harness.Scheme()
	if err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

// Operator starts the shipped program. Callers without a reason of their own use With, which also stops it.
func (s *Stage) Operator(ctx context.Context, options harness.Options) (*harness.Operator, error) {
	options.Binary = s.binary
	return harness.Launch(ctx, s.Cluster, s.dir, options)
}

// With runs the operator, with some arguments, until do returns.
func (s *Stage) With(ctx context.Context, do func(*harness.Operator) error, args ...string) error {
	operator, err := s.Operator(ctx, harness.Options{Args: args})
	if err != nil {
		return err
	}
	err = operator.Ready(ctx)
	if err == nil {
		err = do(operator)
	}
	if err := errors.Join(err, operator.Stop()); err != nil {
		return fmt.Errorf("%w\nthe operator's log:\n%s", err, operator.Log())
	}
	return nil
}

// Bare returns a client with the operator's own account, whose writes are the floor: the same requests by a program that decides nothing.
func (s *Stage) Bare(ctx context.Context) (client.WithWatch, error) {
	config, err := s.Cluster.AsServiceAccount(ctx, harness.SystemNamespace, harness.ServiceAccount)
	if err != nil {
		return nil, err
	}
	return newClient(config)
}

// Dir is a folder for files; Close removes it.
func (s *Stage) Dir() string { return s.dir }

// Counts counts the operator's requests since a mark in the audit log.
func (s *Stage) Counts(ctx context.Context, mark cluster.AuditMark) (cluster.AuditCounts, error) {
	if _, err := s.Cluster.Audit().Sync(ctx); err != nil {
		return nil, err
	}
	return s.Cluster.Audit().Counts(mark, func(e *cluster.AuditEvent) bool { return e.User == harness.User })
}

// Writes counts the operator's writes since a mark in the audit log.
func (s *Stage) Writes(ctx context.Context, mark cluster.AuditMark) (int, error) {
	counts, err := s.Counts(ctx, mark)
	return counts.Total(cluster.AuditKey.Write), err
}

// IsChange reports whether a request writes, and neither a lease nor a review of the requests for metrics.
func IsChange(verb, resource string) bool {
	return cluster.AuditKey{Verb: verb}.Write() && resource != "leases" && !strings.HasSuffix(resource, "reviews")
}

// Changes counts what the operator wrote since a mark, without leases and reviews.
func (s *Stage) Changes(ctx context.Context, mark cluster.AuditMark) (int, error) {
	counts, err := s.Counts(ctx, mark)
	return counts.Total(func(k cluster.AuditKey) bool { return IsChange(k.Verb, k.Resource) }), err
}
