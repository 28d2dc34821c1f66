package ui

import (
	"net/http"

	"github.com/drover-io/drover/internal/cli/view"
)

// ActionName is what a user can do on the page.
type ActionName string

// The actions.
const (
	// Pause is kubectl drover pause.
	Pause ActionName = "pause"
	// Resume is kubectl drover resume.
	Resume ActionName = "resume"
	// StartMaintenance is kubectl drover maintenance start.
	StartMaintenance ActionName = "startMaintenance"
	// EndMaintenance is kubectl drover maintenance end.
	EndMaintenance ActionName = "endMaintenance"
)

// The bounds of requests.
const (
	maxTargets     = 200
	maxActionBytes = 64 << 10
)

// Action is a request to POST /api/actions. With ?dryRun=true the API server only checks what would be written.
type Action struct {
	Action ActionName `json:"action"`
	// Targets are names of nodes for a maintenance, and KIND/NAME for pause and resume, with the kind nodegroup, machineset, machine or node.
	Targets []string `json:"targets"`
	// Namespace is that of MachineSets and Machines; empty for the namespace that the command uses without -n.
	Namespace string `json:"namespace,omitempty"`
	// Reason is shown to others who find the object paused or the node cordoned. NodeGroups have none.
	Reason string `json:"reason,omitempty"`
	// Deadline is how long the drain of a maintenance may take, such as 30m; empty for no limit. Force deletes the Pods that are left then.
	Deadline string `json:"deadline,omitempty"`
	Force    bool   `json:"force,omitempty"`
}

// ActionResult is the answer. The status of the answer is 200 also if a target has failed: Errors says so.
type ActionResult struct {
	view.TypeMeta
	// Command does the same in a terminal.
	Command string `json:"command"`
	DryRun  bool   `json:"dryRun"`
	// Output are the lines that the command prints, one for each object that was written. Errors are why others were not, in the server's words.
	Output []string `json:"output"`
	Errors []string `json:"errors"`
}

// serveAction serves POST /api/actions.
func (s *server) serveAction(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "kubectl drover ui was started without --write", http.StatusForbidden)
}
