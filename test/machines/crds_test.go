package machines

import (
	"context"
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/harness"
)

// TestCapabilities_OneStopsWithItsCRDs: the capabilities metadata and machines both read MachineSets and Machines. When machines stops, metadata must
// keep its watches. When machines starts again, it must work as before.
func TestCapabilities_OneStopsWithItsCRDs(t *testing.T) {
	w, operator := world(t)
	p := w.MakePool("deaf", 1, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/round": "before"}
	})
	name := p.Runs(1)[0].Status.NodeRef.Name
	file, err := harness.Folder("config/crd")
	if err != nil {
		t.Fatal(err)
	}
	file += "/machine.openshift.io_machinehealthchecks.yaml"
	t.Cleanup(func() {
		if output, err := harness.Kubectl(context.WithoutCancel(t.Context()), env, nil, "apply", "--server-side", "-f", file); err != nil {
			t.Error(err, output)
		}
	})
	for round := range 2 {
		if output, err := harness.Kubectl(t.Context(), env, nil, "delete", "-f", file); err != nil {
			t.Fatal(err, output)
		}
		if err := operator.Says(t.Context(), "capability machines: off (the API server has no machinehealthchecks"); err != nil {
			t.Fatal(err)
		}
		label := fmt.Sprintf("without-%d", round)
		w.Merge(p.Set(), fmt.Sprintf(`{"spec":{"template":{"spec":{"metadata":{"labels":{"example.com/round":%q}}}}}}`, label))
		w.Eventually("the label that was changed meanwhile", func() error {
			if got := w.Node(name).Labels["example.com/round"]; got != label {
				return fmt.Errorf("it is %q", got)
			}
			return nil
		})
		if output, err := harness.Kubectl(t.Context(), env, nil, "apply", "--server-side", "-f", file); err != nil {
			t.Fatal(err, output)
		}
		if err := operator.Says(t.Context(), "capability machines: running"); err != nil {
			t.Fatal(err)
		}
		p.Scale(int32(2 + round))
		p.Runs(2 + round)
	}
}
