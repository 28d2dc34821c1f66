package machines

import (
	"os/exec"
	"path/filepath"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestProvider_ThirdParty builds and runs the program that docs/provider.md walks through.
func TestProvider_ThirdParty(t *testing.T) {
	w := prepared(t)
	folder, err := harness.Folder("examples/static")
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(t.TempDir(), "static")
	command := exec.Command("go", "build", "-o", binary, ".")
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", folder, err, output)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=*", "--providers=*"}, Binary: binary})
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: "static-1"}}
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"static.example.com/v1","kind":"StaticMachineProviderSpec","nodeName":"static-server"}`),
	}
	if err := w.Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	p := &harness.Pool{World: w}
	condition(p, "static-1", "InstanceExists", "InstanceNotCreated")
	server := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "static-server", Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
		Spec:       corev1.NodeSpec{ProviderID: "static://server"},
	}
	if err := w.Client.Create(t.Context(), server); err != nil {
		t.Fatal(err)
	}
	condition(p, "static-1", "Ready", "True")
	if ref := w.Machine("static-1").Status.NodeRef; ref == nil || ref.Name != "static-server" {
		t.Errorf("nodeRef is %+v", ref)
	}
	p.DeleteMachine("static-1")
	w.Gone(machine)
	w.Gone(server)
}
