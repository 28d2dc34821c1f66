package machines

import (
	"testing"

	"github.com/drover-io/drover/test/harness"
)

// The tests of the API's own authors hold on the CRDs as they are installed, with Drover's admission policies beside them.
func TestAPISuites(t *testing.T) {
	prepared(t)
	harness.RunAPISuites(t, env, false, 3)
}
