package machine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/provider"
)

// present is an API server that knows better than the caches.
type present struct {
	client.Reader
	machine *machinev1beta1.Machine
	node    *corev1.Node
	err     error
	reads   int
}

func (p *present) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	p.reads++
	switch into := object.(type) {
	case *machinev1beta1.Machine:
		if p.err == nil && p.machine != nil {
			*into = *p.machine
			return nil
		}
	case *corev1.Node:
		if p.err == nil && p.node != nil {
			*into = *p.node
			return nil
		}
	}
	if p.err != nil {
		return p.err
	}
	return apierrors.NewNotFound(corev1.Resource("any"), key.Name)
}

// The process ended between the provider's answer and its record: the Node is found by what the provider says, drained and deleted.
func TestDelete_DrainsInstanceThatWasNotRecorded(t *testing.T) {
	s := newFixture(t, machineOf("m"), nodeOf("m"), podOf("p", "m"))
	s.cloud.instances["m"] = instanceOf("m")
	s.delete("m")
	for range 3 {
		s.reconcile("m")
	}
	if !s.node("m").Spec.Unschedulable || s.cloud.instances["m"] == nil {
		t.Fatal("its node is not cordoned, or its instance is gone before its pods")
	}
	if err := s.client.Delete(t.Context(), podOf("p", "m")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if s.node("m") != nil || s.machine("m") != nil || s.cloud.instances["m"] != nil {
		t.Error("something is left of it")
	}
}

func TestDelete_WaitsForTheProvider(t *testing.T) {
	s := newFixture(t, machineOf("m"), nodeOf("m"))
	s.cloud.instances["m"] = instanceOf("m")
	s.cloud.fail["get"] = provider.RequeueAfter(7*time.Second, "busy")
	s.delete("m")
	if result, _, calls := s.reconcile("m"); calls != "get" || result.RequeueAfter != 7*time.Second {
		t.Errorf("calls %q, again in %s", calls, result.RequeueAfter)
	}
	delete(s.cloud.fail, "get")
	s.settle("m")
	if s.node("m") != nil || s.machine("m") != nil {
		t.Error("something is left of it")
	}
}

// A Node that has registered anew since the cache heard of it is looked at again, not taken for gone.
func TestDelete_NodeThatRegisteredAnew(t *testing.T) {
	s := running(t)
	s.Fail["delete Node"] = apierrors.NewConflict(corev1.Resource("nodes"), "m", errors.New("the UID is another one"))
	s.delete("m")
	for range 3 {
		s.reconcile("m")
	}
	if s.machine("m") == nil {
		t.Fatal("the Machine is gone and its Node is there")
	}
	delete(s.Fail, "delete Node")
	s.settle("m")
	if s.node("m") != nil || s.machine("m") != nil {
		t.Error("something is left of it")
	}
}

// A guard that fails again and again means a cache that lags: writing ten times a second would not make it faster.
func TestReconcile_ConflictsBackOff(t *testing.T) {
	s := running(t, podOf("p", "m"))
	s.Fail["patch Node"] = apierrors.NewConflict(corev1.Resource("nodes"), "m", errors.New("modified"))
	s.delete("m")
	var waits []time.Duration
	for range 20 {
		if result, writes, _ := s.reconcile("m"); strings.Contains(writes, "patch Node") {
			waits = append(waits, result.RequeueAfter)
		}
	}
	if len(waits) < 7 || waits[0] != controller.RetryConflict || waits[1] != 2*controller.RetryConflict || waits[len(waits)-1] != 5*time.Second {
		t.Errorf("looks again in %v", waits)
	}
	delete(s.Fail, "patch Node")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining")
}

// What was found out and could not be written is found out again, not ten minutes later.
// nodeless is a cache that has not heard of any Node yet.
type nodeless struct{ client.Reader }

func (n nodeless) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, node := object.(*corev1.Node); node {
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	return n.Reader.Get(ctx, key, object, options...)
}

func (n nodeless) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, nodes := list.(*corev1.NodeList); nodes {
		return nil
	}
	return n.Reader.List(ctx, list, options...)
}

// A Node that registers just when its instance ends is deleted, too. A Node that only has the same name is not.
func TestDelete_NodeThatTheCacheDoesNotShow(t *testing.T) {
	for name, c := range map[string]struct {
		id    string
		stays bool
	}{"its own": {"cloud:///m", false}, "another's": {"cloud:///other", true}, "of no instance": {"", true}} {
		s := newFixture(t, machineOf("m"))
		s.settle("m")
		s.Cache, s.finder.Reader = nodeless{s.client}, nodeless{s.client}
		node := nodeOf("m")
		node.Spec.ProviderID = c.id
		s.create(node)
		s.delete("m")
		s.settle("m")
		if stays := s.node("m") != nil; s.machine("m") != nil || stays != c.stays {
			t.Errorf("%s: the Machine is %v, the Node stays: %v", name, s.machine("m"), stays)
		}
	}
	s := newFixture(t, machineOf("m"))
	s.settle("m")
	s.Live = &present{err: errors.New("no")}
	s.delete("m")
	for range 3 {
		_, _, _, _ = s.tryReconcile("m")
	}
	if s.machine("m") == nil {
		t.Error("the Machine is gone although its Node could not be looked up")
	}
}

func TestReconcile_FailedWriteIsFollowedByAnotherGet(t *testing.T) {
	s := running(t)
	s.clock.Step(10 * time.Minute)
	s.cloud.instances["m"].State = provider.Stopped
	s.Fail["patch Machine"] = errors.New("no")
	if _, _, _, err := s.tryReconcile("m"); err == nil {
		t.Fatal("nothing failed")
	}
	delete(s.Fail, "patch Machine")
	if _, writes, calls := s.reconcile("m"); calls != "get" || writes == "" {
		t.Errorf("calls %q, writes %q", calls, writes)
	}
}
