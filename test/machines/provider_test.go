package machines

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/apitest/builder"
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
	// The flags are the same as in hack/build.sh: with other flags Go would compile all dependencies again.
	command := exec.Command("go", "build", "-trimpath", "-o", binary, ".")
	command.Dir, command.Env = folder, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", folder, err, output)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=*", "--providers=*"}, Binary: binary})
	machine := harness.NewMachine("static-1")
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{
		Raw: []byte(`{"apiVersion":"static.example.com/v1","kind":"StaticMachineProviderSpec","nodeName":"static-server"}`),
	}
	if err := w.Client.Create(t.Context(), machine); err != nil {
		t.Fatal(err)
	}
	p := &harness.Pool{World: w}
	condition(p, "static-1", "InstanceExists", "InstanceNotCreated")
	server := builder.Node("static-server", harness.WithKwok, builder.WithProviderID("static://server"))
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
