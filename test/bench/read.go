package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// read finds a roll-out in the audit log: the API server's own times, without an observer that would take from what is measured.
func (b *stage) read(ctx context.Context, mark cluster.AuditMark, begun time.Time) (rollout, error) {
	if _, err := b.Cluster.Audit().Sync(ctx); err != nil {
		return rollout{}, err
	}
	var r rollout
	var nodes []float64
	machines := 0
	err := b.Cluster.Audit().Each(mark, func(e *cluster.AuditEvent) error {
		switch {
		case e.User != harness.User:
			return nil
		case e.Verb == "patch" && e.Resource == "machines":
			machines++
		case e.Verb == "patch" && e.Resource == "nodes":
			nodes = append(nodes, e.Answered.Sub(begun).Seconds())
		default:
			r.OtherRequests++
			return nil
		}
		if e.Code != 200 {
			r.Conflicts++
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	size := sizeOf(b.changed)
	if len(nodes) < size {
		return r, fmt.Errorf("the audit log has %d writes of Nodes by %s, want %d", len(nodes), harness.User, size)
	}
	r.Nodes = spreadOf(nodes)
	r.Seconds = r.Nodes.Max
	r.MachineWrites = float64(machines) / float64(size)
	r.NodeWrites = float64(len(nodes)) / float64(size)
	return r, nil
}

func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	at := func(share float64) float64 { return values[min(int(share*float64(len(values))), len(values)-1)] }
	return spread{P50: at(0.5), P99: at(0.99), Max: values[len(values)-1]}
}

// writes counts what the operator wrote since a mark, without the renewals of its lease.
func (b *stage) writes(ctx context.Context, mark cluster.AuditMark) (int, error) {
	counts, err := b.Counts(ctx, mark)
	// Reviews are questions of the metrics endpoint, which this benchmark reads.
	return counts.Total(func(k cluster.AuditKey) bool {
		return k.Write() && k.Resource != "leases" && !strings.HasSuffix(k.Resource, "reviews")
	}), err
}

// synced waits until the operator counts all Machines as synced, and returns when that was. It is asked only when it has little to do: of thousands
// of Machines its metrics take a good part of a second of processor time, which would be measured as well.
func (b *stage) synced(ctx context.Context, operator *harness.Operator) (at time.Time, err error) {
	err = wait(ctx, 100*time.Millisecond, func() error {
		if err := bench.Quiet(ctx, operator.PID); err != nil {
			return err
		}
		at = time.Now()
		text, err := b.scrape(ctx, operator)
		if err != nil {
			return err
		}
		lines := strings.Split(text, "\n")
		for _, p := range b.pools {
			line := fmt.Sprintf(`drover_metadata_nodes{machineset=%q,namespace=%q,state="synced"} %d`, p.name, b.namespace(), p.size)
			if !slices.Contains(lines, line) {
				return fmt.Errorf("the operator does not know all Machines of %s as synced", p.name)
			}
		}
		return nil
	})
	return at, err
}

// catchUp reads how long the workers waited for the caches to show what was written before.
func (b *stage) catchUp(ctx context.Context, operator *harness.Operator) (float64, error) {
	const metric = `drover_capability_catch_up_seconds{capability="metadata"} `
	text, err := b.scrape(ctx, operator)
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(text, "\n") {
		if value, found := strings.CutPrefix(line, metric); found {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("the operator's metrics have no %q", metric)
}

func (b *stage) scrape(ctx context.Context, operator *harness.Operator) (string, error) {
	if b.token == "" {
		token, err := harness.MetricsToken(ctx, b.Cluster, b.Client)
		if err != nil {
			return "", err
		}
		b.token = token
	}
	return operator.Scrape(ctx, b.token)
}

// limited measures the roll-out under the default limit, and how soon a manual edit is reverted in the middle of it.
func (b *stage) limited(ctx context.Context, r *result, args ...string) error {
	operator, _, err := b.launch(ctx, args...)
	if err != nil {
		return err
	}
	if b.mark, err = b.Cluster.Audit().Sync(ctx); err != nil {
		return err
	}
	begun, err := b.declare(ctx, b.pools...)
	if err != nil {
		return err
	}
	drift, err := b.edits(ctx)
	if err != nil {
		return err
	}
	r.Drift = spreadOf(drift)
	if err := b.carried(ctx); err != nil {
		return err
	}
	if r.Limited, err = b.read(ctx, b.mark, begun); err != nil {
		return err
	}
	return b.stop(operator, r)
}

// edits changes Nodes by hand, one after another, that have got the new value already, for as long as others have not.
func (b *stage) edits(ctx context.Context) ([]float64, error) {
	const most = 20
	want := "v" + strconv.Itoa(b.value)
	random := rand.New(rand.NewPCG(uint64(sizeOf(b.changed)), 0)) //nolint:gosec // a size is not negative
	var times []float64
	for len(times) < most {
		var done corev1.NodeList
		if err := b.Client.List(ctx, &done, client.MatchingLabels{"bench.drover.dev/label": want}); err != nil {
			return nil, err
		}
		if len(done.Items) == sizeOf(b.changed) {
			break
		}
		if len(done.Items) == 0 {
			continue
		}
		took, err := b.edit(ctx, done.Items[random.IntN(len(done.Items))].Name, want)
		if err != nil {
			return nil, err
		}
		times = append(times, took)
	}
	return times, nil
}

// edit takes a label off a Node and waits until it is back.
func (b *stage) edit(ctx context.Context, name, want string) (float64, error) {
	node := &corev1.Node{}
	node.Name = name
	text := []byte(`{"metadata":{"labels":{"bench.drover.dev/label":null}}}`)
	begun := time.Now()
	if err := b.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, text)); err != nil {
		return 0, err
	}
	err := wait(ctx, 5*time.Millisecond, func() error {
		err := b.Client.Get(ctx, types.NamespacedName{Name: name}, node)
		if err == nil && node.Labels["bench.drover.dev/label"] != want {
			err = fmt.Errorf("node %s: the label is not back", name)
		}
		return err
	})
	return time.Since(begun).Seconds(), err
}

// idle measures a while in which nothing is to be done, with the nodes' heartbeats.
func (b *stage) idle(ctx context.Context, r *result, args ...string) error {
	operator, _, err := b.launch(ctx, args...)
	if err != nil {
		return err
	}
	mark, err := b.Cluster.Audit().Sync(ctx)
	if err != nil {
		return err
	}
	r.Rest = &atRest{}
	var used float64
	if r.Rest.Seconds, used, err = bench.Usage(ctx, operator.PID, b.rest); err != nil {
		return err
	}
	r.Rest.Cores = used / r.Rest.Seconds
	if r.Rest.Writes, err = b.writes(ctx, mark); err != nil {
		return err
	}
	counts, err := b.Cluster.Audit().Counts(mark, nil)
	if err != nil {
		return err
	}
	r.Rest.Leases = counts.Total(func(k cluster.AuditKey) bool { return k.User == harness.User && k.Resource == "leases" && k.Write() })
	r.Rest.Heartbeats = counts.Total(func(k cluster.AuditKey) bool {
		return k.User == "system:kwok" && k.Write() && (k.Resource == "leases" || k.Resource == "nodes")
	})
	return b.stop(operator, r)
}
