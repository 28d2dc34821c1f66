// Package attacks tries, on a real control plane with the shipped permissions and policies, what an attacker could gain through Drover. Each
// attacker has a file, and no more rights than the least that such an attacker has.
package attacks

import (
	"os"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{}, &env))
}

// goneOwner is a merge patch with an owner that does not exist: the garbage collector deletes such an object.
const goneOwner = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"gone","uid":"00000000-0000-0000-0000-000000000000"}]}}`

// attack runs one attempt as a subtest. The verbose output has a line for each: who tried what, and what stopped it.
func attack(t *testing.T, attacker, attempt string, try func(t *testing.T) (stoppedBy string)) {
	t.Helper()
	t.Run(attempt, func(t *testing.T) {
		defer func() {
			if t.Failed() {
				t.Logf("ATTACK SUCCEEDED: %s: %s", attacker, attempt)
			}
		}()
		by := try(t)
		if t.Failed() {
			return
		}
		t.Logf("attack: %s: %s; stopped by: %s", attacker, attempt, by)
	})
}

// denied checks that the API server has refused a request as forbidden or invalid, and returns what it said. A policy that fails to be evaluated
// refuses everything, and is none.
func denied(t *testing.T, err error) string {
	t.Helper()
	if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || strings.Contains(err.Error(), "resulted in error") {
		t.Errorf("the API server has not refused it: %v", err)
		return ""
	}
	return err.Error()
}
