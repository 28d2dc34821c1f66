package harness

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/eventually"
)

// World is a control plane as one test sees it.
type World struct {
	testing.TB

	Cluster *cluster.Cluster
	// Client is the administrator's.
	Client client.Client
}

// NewWorld makes a test's view of a control plane.
func NewWorld(t testing.TB, c *cluster.Cluster) *World {
	t.Helper()
	return &World{TB: t, Cluster: c, Client: ClientFor(t, c.Admin())}
}

// Scheme returns a scheme with all types that tests read and write.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(clientgoscheme.AddToScheme, machinev1beta1.Install, medik8s.AddToScheme, kubevirt.AddToScheme,
		mutex.AddToScheme, drover.AddToScheme, autoscaling.AddToScheme, mcfgv1.Install, configv1.Install)
	return scheme, builder.AddToScheme(scheme)
}

// ClientFor makes a client without a cache.
func ClientFor(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// Eventually waits until a condition holds, and fails the test with the condition's last complaint when it does not.
func (w *World) Eventually(what string, condition func() error) {
	w.Helper()
	if err := WaitFor(w.Context(), condition); err != nil {
		w.Fatalf("%s: %v", what, err)
	}
}

// WaitFor waits until a condition gives no error, at most for Patience.
func WaitFor(ctx context.Context, condition func() error) error {
	if err := WaitLonger(ctx, slowAfter, pollInterval, condition); err == nil || ctx.Err() != nil {
		return err
	}
	return WaitLonger(ctx, Patience, slowPollInterval, condition)
}

// WaitLonger is WaitFor with a limit of its own, and for conditions that are costly to look at.
func WaitLonger(ctx context.Context, limit, every time.Duration, condition func() error) error {
	return eventually.Until(ctx, limit, every, condition)
}

// Pool makes a pool of Machines with Nodes and removes it when the test ends.
func (w *World) Pool(options cluster.PoolOptions) {
	w.Helper()
	if err := cluster.CreatePool(w.Context(), w.Cluster.Admin(), options); err != nil {
		w.Fatal(err)
	}
	w.cleanup(func(ctx context.Context) {
		if err := cluster.DeletePool(ctx, w.Cluster.Admin(), options); err != nil {
			w.Errorf("removing the pool: %v", err)
		}
	})
}

// Set reads a MachineSet of the usual namespace.
func (w *World) Set(name string) *machinev1beta1.MachineSet {
	w.Helper()
	return read(w, cluster.MachineNamespace, name, &machinev1beta1.MachineSet{})
}

// Machine reads a Machine of the usual namespace.
func (w *World) Machine(name string) *machinev1beta1.Machine {
	w.Helper()
	return read(w, cluster.MachineNamespace, name, &machinev1beta1.Machine{})
}

// Node reads a Node.
func (w *World) Node(name string) *corev1.Node {
	w.Helper()
	return read(w, "", name, &corev1.Node{})
}

// read reads an object.
func read[T client.Object](w *World, namespace, name string, object T) T {
	w.Helper()
	if err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: name}, object); err != nil {
		w.Fatalf("reading %T %s: %v", object, name, err)
	}
	return object
}

// cleanup has something done when the test ends, whose own context is over then.
func (w *World) cleanup(do func(ctx context.Context)) {
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		do(ctx)
	})
}

// notSynced is part of the refusal by a policy whose parameters the API server has not read yet, as in the first moments after an installation.
const notSynced = "not yet synced to use for admission"

// Update changes an object as an administrator does, again after a conflict, and while the API server has not read the parameters of a policy.
func Update[T client.Object](w *World, read func(string) T, name string, change func(T)) {
	w.Helper()
	w.Eventually("updating "+name, func() error {
		object := read(name)
		change(object)
		err := w.Client.Update(w.Context(), object)
		if err != nil && !apierrors.IsConflict(err) && !strings.Contains(err.Error(), notSynced) {
			w.Fatalf("updating %s: %v", name, err)
		}
		return err
	})
}

// Has returns an error that names a label, annotation or taint that a Node lacks. Taints are written key=value:Effect.
func Has(node *corev1.Node, labels, annotations map[string]string, taints ...string) error {
	for key, value := range labels {
		if got, ok := node.Labels[key]; !ok || got != value {
			return fmt.Errorf("node %s: label %s is %q (present: %t), want %q", node.Name, key, got, ok, value)
		}
	}
	for key, value := range annotations {
		if got, ok := node.Annotations[key]; !ok || got != value {
			return fmt.Errorf("node %s: annotation %s is %q (present: %t), want %q", node.Name, key, got, ok, value)
		}
	}
	found := Taints(node)
	for _, taint := range taints {
		if !slices.Contains(found, taint) {
			return fmt.Errorf("node %s: taints are %v, want %s among them", node.Name, found, taint)
		}
	}
	return nil
}

// Taints lists a Node's taints as key=value:Effect, in their order.
func Taints(node *corev1.Node) []string {
	texts := make([]string, 0, len(node.Spec.Taints))
	for _, taint := range node.Spec.Taints {
		texts = append(texts, taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	return texts
}

// Taint reads a taint written key=value:Effect.
func Taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

// Mark gives a MachineSet a fresh label and waits until all of its Nodes have it. What happened before is over then: work items of
// one Machine are done one after another. The label stays, so that the next call has something to change.
func (w *World) Mark(set string) {
	w.Helper()
	value := fmt.Sprintf("m%d", time.Now().UnixNano())
	Update(w, w.Set, set, func(s *machinev1beta1.MachineSet) {
		s.Spec.Template.Spec.Labels = merged(s.Spec.Template.Spec.Labels, map[string]string{"test.drover.dev/mark": value})
	})
	w.Nodes(set, "the mark", func(node *corev1.Node) error {
		return Has(node, map[string]string{"test.drover.dev/mark": value}, nil)
	})
}

// Nodes waits until a condition holds for every Node of a pool.
func (w *World) Nodes(pool, what string, condition func(*corev1.Node) error) {
	w.Helper()
	w.Eventually(what, func() error {
		var nodes corev1.NodeList
		if err := w.Client.List(w.Context(), &nodes, client.MatchingLabels{cluster.PoolLabel: pool}); err != nil {
			return err
		}
		if len(nodes.Items) == 0 {
			return fmt.Errorf("pool %s has no Nodes", pool)
		}
		for i := range nodes.Items {
			if err := condition(&nodes.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Writes lists the writes of Nodes and Machines by the operator since a mark in the audit log.
func (w *World) Writes(since cluster.AuditMark) []cluster.AuditEvent {
	w.Helper()
	return slices.DeleteFunc(w.AllWrites(since), func(e cluster.AuditEvent) bool { return e.Resource != "nodes" && e.Resource != "machines" })
}

// AllWrites lists the writes by the operator since a mark, as Faults count them: without events, reviews and dry runs.
func (w *World) AllWrites(since cluster.AuditMark) []cluster.AuditEvent {
	w.Helper()
	if _, err := w.Cluster.Audit().Sync(w.Context()); err != nil {
		w.Fatal(err)
	}
	events, err := w.Cluster.Audit().Since(since)
	if err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(events, func(e cluster.AuditEvent) bool {
		ignored := e.Resource == "events" || strings.HasSuffix(e.Resource, "reviews") || strings.Contains(e.URI, "dryRun")
		return e.User != User || !e.Write() || ignored
	})
}

// AuditMark is the present end of the audit log.
func (w *World) AuditMark() cluster.AuditMark {
	w.Helper()
	mark, err := w.Cluster.Audit().Sync(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return mark
}

// Events lists reason and text of the events about an object, in no order.
func (w *World) Events(kind, name string) map[string][]string {
	w.Helper()
	var events corev1.EventList
	if err := w.Client.List(w.Context(), &events); err != nil {
		w.Fatal(err)
	}
	found := map[string][]string{}
	for _, event := range events.Items {
		if event.InvolvedObject.Kind == kind && event.InvolvedObject.Name == name {
			found[event.Reason] = append(found[event.Reason], event.Message)
		}
	}
	return found
}

// Operator starts the operator and waits until it is ready.
func (w *World) Operator(options Options) *Operator {
	w.Helper()
	operator := Start(w.TB, w.Cluster, options)
	if err := operator.Ready(w.Context()); err != nil {
		w.Fatal(err)
	}
	return operator
}

// Seed prints and returns the seed of a test's randomness: DROVER_TEST_SEED, or the time.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("DROVER_TEST_SEED"); text != "" {
		if _, err := fmt.Sscan(text, &seed); err != nil {
			t.Fatalf("DROVER_TEST_SEED: %v", err)
		}
	}
	t.Logf("DROVER_TEST_SEED=%d", seed)
	return seed
}

// Meta makes the metadata of an object of the usual namespace.
func Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: name}
}
