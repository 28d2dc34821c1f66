package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// podNamespace returns the namespace of the Pod that this process runs in.
func podNamespace() (string, error) {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(text)), err
}

// newLock returns the lock of the leader election. It records no events: those would be of the old kind in a namespace of their own, and
// need a permission that nothing else needs; the log says which replica leads.
func newLock(config *rest.Config, election v1alpha1.LeaderElection) (resourcelock.Interface, error) {
	namespace := election.Namespace
	if namespace == "" {
		var err error
		if namespace, err = podNamespace(); err != nil {
			return nil, fmt.Errorf("leader election needs a namespace for its lease: this is no Pod (%w); give --leader-elect-namespace, "+
				"or --leader-elect=false where only one Drover runs", err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, election.Name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, election.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &renewals{
		Interface: lock, period: renewalPeriod(election), deadline: election.RenewDeadline.Duration, clock: clock.RealClock{},
	}, nil
}

// attempts is how many times in each retryPeriod a replica looks whether it can acquire the lease. The time without a leader after a graceful end
// depends on it.
const attempts = 4

// attemptPeriod returns the retry period of client-go, for the leader and for the others. The elector waits up to 2.2 of them after an attempt that
// fails (https://pkg.go.dev/k8s.io/client-go/tools/leaderelection#JitterFactor).
func attemptPeriod(election v1alpha1.LeaderElection) time.Duration {
	return renewalPeriod(election) / attempts
}

// renewalPeriod returns how long renewals are left out after one. A leader ends renewDeadline after the last that it has tried, which has to be
// before the others may take the lease over.
func renewalPeriod(election v1alpha1.LeaderElection) time.Duration {
	return min(election.RetryPeriod.Duration, (election.LeaseDuration.Duration-election.RenewDeadline.Duration)/2)
}

// renewals is a lock that writes the lease of this replica once in each period, and leaves out the renewals between.
type renewals struct {
	resourcelock.Interface

	period, deadline time.Duration
	clock            clock.PassiveClock
	// record is the last written record, and at the time of that write, on a clock that does not jump. The time is zero after a failure.
	record resourcelock.LeaderElectionRecord
	at     time.Time
	// renewed is when the last write succeeded, zero before the first. holder is who had the lease when it was read last.
	renewed time.Time
	holder  string
}

// errLost is what a leader gets that has not renewed its lease in time.
var errLost = errors.New("the lease was not renewed within the deadline")

// Get reads the lease. When the renewal of a leader has failed, client-go asks the API server to release the lease before it stops the leader's work,
// which may take as long as the renewal: it must not be asked then, because others take the lease over meanwhile.
func (r *renewals) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if !r.renewed.IsZero() && r.clock.Since(r.renewed) > r.deadline {
		return nil, nil, errLost
	}
	record, text, err := r.Interface.Get(ctx)
	if err == nil {
		r.holder = record.HolderIdentity
	}
	return record, text, err
}

// Create makes the lease.
func (r *renewals) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return r.write(ctx, record, r.Interface.Create)
}

// Update writes the lease, unless that only renews it and it was written within the period.
func (r *renewals) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if record.HolderIdentity == "" && r.holder != r.Identity() {
		return fmt.Errorf("the lease is not released: its holder is %q", r.holder)
	}
	last := r.record
	last.RenewTime = record.RenewTime
	// Attempts are not made at exact times. An attempt still renews if it comes early by less than half of the time between two attempts.
	if !r.at.IsZero() && last == record && r.clock.Since(r.at) < r.period-r.period/(2*attempts) {
		return nil
	}
	return r.write(ctx, record, r.Interface.Update)
}

func (r *renewals) write(
	ctx context.Context, record resourcelock.LeaderElectionRecord, write func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	now := r.clock.Now()
	r.at = time.Time{}
	if err := write(ctx, record); err != nil {
		return err
	}
	r.record, r.at, r.renewed, r.holder = record, now, now, record.HolderIdentity
	return nil
}
