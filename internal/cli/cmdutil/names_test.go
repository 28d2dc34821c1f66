package cmdutil

import (
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"
)

func TestOptions_Targets(t *testing.T) {
	o := NewOptions(genericiooptions.NewTestIOStreamsDiscard())
	for _, c := range []struct{ args, want, failure string }{
		{"workers", "machineset.machine.openshift.io/workers", ""},
		{"pool/workers machineset/infra", "machineset.machine.openshift.io/workers machineset.machine.openshift.io/infra", ""},
		{"node a b", "node/a node/b", ""},
		{"machines a", "machine.machine.openshift.io/a", ""},
		{"machine.machine.openshift.io/a no/b ng/c", "machine.machine.openshift.io/a node/b nodegroup.drover.dev/c", ""},
		{"node", "machineset.machine.openshift.io/node", ""},
		{"", "", ""},
		{"workers node/", "", `"node/" is not a MACHINESET, machine/NAME, node/NAME or nodegroup/NAME`},
		{"pod/x", "", `"pod/x" is not a MACHINESET`},
	} {
		targets, err := o.Targets(strings.Fields(c.args), MachineSetKind, MachineKind, NodeKind, NodeGroupKind)
		var got []string
		for _, target := range targets {
			got = append(got, NameOf(target))
			if namespaced := target.GetNamespace() == DefaultNamespace; namespaced != strings.HasPrefix(got[len(got)-1], "machine") {
				t.Errorf("%s is in namespace %q", got[len(got)-1], target.GetNamespace())
			}
		}
		if strings.Join(got, " ") != c.want || (err == nil) != (c.failure == "") || err != nil && !strings.Contains(err.Error(), c.failure) {
			t.Errorf("%s: %v %v", c.args, got, err)
		}
	}
}
