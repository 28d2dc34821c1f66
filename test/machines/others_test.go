package machines

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestOperator_WithoutStreamedLists runs all capabilities without streamed lists. make test-versions has API servers that refuse them.
func TestOperator_WithoutStreamedLists(t *testing.T) {
	w := prepared(t)
	w.Operator(harness.Options{Args: []string{"--controllers=*"}, Env: []string{"KUBE_FEATURE_WatchListClient=false"}})
	machine := w.MakePool("listed", 1, nil).Runs(1)[0]
	w.Maintain(machine.Status.NodeRef.Name, nil).Phase(medik8s.PhaseSucceeded)
}

func TestMachine_ExpiredLeaseOfAnotherHolder(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("leased", 1, nil)
	name := p.Runs(1)[0].Name
	w.TakeLease(name, "another-operator", 20*time.Second)
	p.DeleteMachine(name)
	condition(p, name, "Drained", "LeaseHeldByOther")
	if w.Node(name).Spec.Unschedulable {
		t.Error("the node is cordoned under the lease of another operator")
	}
	p.Gone(name)
	w.NoLease(name)
}

func TestMachine_AdoptedAndReleased(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("adopts", 1, nil)
	first := p.Runs(1)[0]
	labels := map[string]string{cluster.MachineSetLabel: "adopts"}
	orphan := harness.NewMachine("adopts-orphan", builder.WithProviderSpec(first.Spec.ProviderSpec))
	orphan.Labels = labels
	p.Scale(2)
	p.Runs(2)
	if err := w.Client.Create(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the orphan is adopted and one of the three goes", func() error {
		owned := 0
		machines := p.Machines()
		for i := range machines {
			if metav1.IsControlledBy(&machines[i], p.Set()) && machines[i].DeletionTimestamp == nil {
				owned++
			}
		}
		if len(machines) != 2 || owned != 2 {
			return fmt.Errorf("there are %d, %d of them owned", len(machines), owned)
		}
		return nil
	})
	left := p.Runs(2)[0]
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:"let-go"}}}`, cluster.MachineSetLabel)
	w.Merge(w.Machine(left.Name), patch)
	w.Eventually("one whose labels do not match is let go", func() error {
		if owners := w.Machine(left.Name).OwnerReferences; len(owners) != 0 {
			return fmt.Errorf("it has the owners %v", owners)
		}
		return nil
	})
	p.Runs(2)
	p.DeleteMachine(left.Name)
	p.Gone(left.Name)
}

func TestDeletion_WaitsForVolumes(t *testing.T) {
	w := besideOthers(t)
	s := w.Site()
	p := w.MakePool("volumes", 1, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Labels = map[string]string{harness.SiteLabel: s.Name}
	})
	name := p.Runs(1)[0].Name
	s.Volume(s.Name+"-kept", "kept")
	s.Claim("kept", s.Name+"-kept")
	s.DaemonSet("staying", 1, harness.Pods{Claim: "kept"})
	s.Attach(s.Name+"-kept", name)
	moved := s.Attach(s.Name+"-moved", name)
	p.DeleteMachine(name)
	w.Eventually("the drain waits for the volume", func() error {
		for _, c := range w.Machine(name).Status.Conditions {
			if c.Type == "Drained" && c.Message == "1 volumes are still attached: "+s.Name+"-moved" {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %s", harness.JSON(w.Machine(name).Status.Conditions))
	})
	if err := w.Client.Delete(t.Context(), moved); err != nil {
		t.Fatal(err)
	}
	p.Gone(name)
}

// A Machine from before the operator's time may be older in its cache than it is: the API server is asked before an instance is made.
func TestMachine_CreatedBeforeTheOperatorStarts(t *testing.T) {
	w := prepared(t)
	machine := harness.NewMachine("waited")
	machine.Finalizers = []string{machinev1beta1.MachineFinalizer}
	w.CreateWithCleanup(machine)
	mark := w.AuditMark()
	// Others write all the time, so that the present version is newer than any cache of Machines.
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "busy"}}
	w.CreateWithCleanup(note)
	ctx, cancel := context.WithCancel(t.Context())
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"data":{"n":"%d"}}`, i))
			if err := w.Client.Patch(ctx, note.DeepCopy(), patch); err != nil && ctx.Err() == nil {
				t.Errorf("writing: %v", err)
			}
		}
	})
	defer writer.Wait()
	defer cancel()
	w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	w.Eventually("the Machine runs", func() error {
		if ref := w.Machine("waited").Status.NodeRef; ref == nil {
			return fmt.Errorf("it has no Node")
		}
		return nil
	})
	cancel()
	if _, err := env.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts, err := env.Audit().Counts(mark, func(e *cluster.AuditEvent) bool {
		return e.User == harness.User && e.Verb == "get" && e.Resource == "machines"
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := counts.Total(nil); n != 0 {
		t.Errorf("the Machine was read %d times: the cache had shown it before any worker started", n)
	}
	pool := &harness.Pool{World: w, Name: "waited"}
	pool.DeleteMachine("waited")
	pool.Gone("waited")
}
