package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/ui/model"
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
	// Warnings is what the command warns of, such as that the API server could not validate the manifest.
	Warnings []string `json:"warnings"`
}

// servePlan serves POST /api/plan. Nothing is written: the command asks the API server for a dry run.
func (s *server) servePlan(w http.ResponseWriter, r *http.Request) {
	manifest, ok := readBody(w, r, "application/yaml", maxManifestBytes)
	if !ok {
		return
	}
	args := slices.Concat([]string{"plan", "-f", "-", "-o", "json"}, s.flags.protect)
	result, ok := s.runCommand(w, r, &commandLine{args: args, namespace: s.flags.namespace, in: manifest})
	if !ok {
		return
	}
	if result.err != nil && !errors.Is(result.err, cmdutil.ErrChanges) {
		http.Error(w, model.Text(result.err.Error(), maxErrorText), http.StatusUnprocessableEntity)
		return
	}
	writeJSON(w, PlanPreview{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "PlanPreview"},
		Command:  s.flags.commandText(slices.Concat([]string{"plan", "-f", "FILE"}, s.flags.protect), s.flags.namespace),
		Plan:     result.out, Changes: result.err != nil, Warnings: linesOf(result.errOut),
	})
}
