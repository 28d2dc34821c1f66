package nodegroup

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/drover-io/drover/test/harness"
)

// TestDocs_ExamplesAreAccepted: the API server accepts every example of docs/node-groups.md as it stands there.
func TestDocs_ExamplesAreAccepted(t *testing.T) {
	w := harness.NewWorld(t, env)
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "node-groups.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	if len(examples) < 4 {
		t.Fatalf("there are %d examples", len(examples))
	}
	for _, example := range examples {
		output, err := harness.Kubectl(t.Context(), w.Cluster, strings.NewReader(example[1]), "create", "--dry-run=server", "-f", "-")
		if err != nil {
			t.Errorf("%v: %s\n%s", err, output, example[1])
		}
	}
}
