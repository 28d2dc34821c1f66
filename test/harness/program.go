package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// operatorVariable is the environment variable that names the program of the operator under test. make test and make test-race build it once and set
// the variable.
const operatorVariable = "DROVER_TEST_OPERATOR"

// program returns the path of test/operator. If the environment does not name one, it builds the sources as they are, so that a test that is run
// alone never tests an older operator. With hack/build.sh, processes that build at the same time wait for one another.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(operatorVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("harness: %s: %w; unset it, and tests build the operator", operatorVariable, err)
		}
		return path, nil
	}
	script, err := Folder("hack/build.sh")
	if err != nil {
		return "", err
	}
	if output, err := exec.Command(script, "operator").CombinedOutput(); err != nil {
		return "", fmt.Errorf("harness: building the operator: %w\n%s", err, output)
	}
	return filepath.Join(filepath.Dir(script), "..", "bin", "drover-operator"), nil
})
