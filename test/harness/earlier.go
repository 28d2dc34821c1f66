package harness

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-io/drover/test/cluster"
)

// Earlier is the commit whose operator tests upgrade from and roll back to: the last one before NodeGroups and the provider vsphere. hack/earlier.sh
// builds it.
const Earlier = "c72f38cc84275bbe445abe2e42c8c7fa0aa63269"

// EarlierOperator returns the program of the operator as it was at Earlier. A test is skipped if it has not been built, which needs the history of
// the repository.
func EarlierOperator(t testing.TB) string {
	t.Helper()
	root, err := cluster.RepositoryRoot()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(root, "bin", "cache", "drover-"+Earlier[:12])
	if _, err := os.Stat(program); err != nil {
		t.Skipf("%v; hack/earlier.sh builds it, from the history of the repository", err)
	}
	return program
}

// Turns run the operator of Earlier and the present one in turns.
type Turns struct {
	*World

	options Options
	earlier string
	present bool
	current *Operator
}

// TakeTurns starts the operator of Earlier.
func (w *World) TakeTurns(options Options) *Turns {
	w.Helper()
	turns := &Turns{World: w, options: options, earlier: EarlierOperator(w.TB)}
	turns.start()
	return turns
}

// Next kills the operator, and starts the other one.
func (t *Turns) Next() {
	t.Helper()
	if err := t.current.Kill(); err != nil {
		t.Fatal(err)
	}
	t.present = !t.present
	t.start()
}

func (t *Turns) start() {
	t.Helper()
	options := t.options
	if !t.present {
		options.Binary, options.AllProviders = t.earlier, true
	}
	t.current = t.Operator(options)
}
