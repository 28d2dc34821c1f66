package ui

import (
	"encoding/json"
	"net/http"

	"github.com/drover-io/drover/internal/cli/view"
)

// maxManifestBytes is how long a manifest can be that is planned.
const maxManifestBytes = 1 << 20

// PlanPreview is the answer to POST /api/plan, whose body is a manifest in YAML or JSON: what would change if the manifest were applied.
type PlanPreview struct {
	view.TypeMeta
	// Command does the same in a terminal, with the manifest in a file.
	Command string `json:"command"`
	// Plan is the document of `kubectl drover plan -f FILE -o json`: a PlanList, or a NodeGroupPlanList if the manifest has NodeGroups only.
	Plan json.RawMessage `json:"plan"`
	// Changes reports whether anything would change.
	Changes bool `json:"changes"`
	// Warnings are those of the command, such as that the API server could not validate the manifest.
	Warnings []string `json:"warnings"`
}

// servePlan serves POST /api/plan.
func (s *server) servePlan(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not there yet", http.StatusNotImplemented)
}
