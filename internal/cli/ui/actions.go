package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/ui/model"
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

// dryRunQuery is the only query of POST /api/actions.
const dryRunQuery = "dryRun=true"

// Action is a request to POST /api/actions. With ?dryRun=true the API server only checks what would be written.
type Action struct {
	Action ActionName `json:"action"`
	// Targets are names of nodes for a maintenance, and KIND/NAME for pause and resume, with the kind nodegroup, machineset, machine or node.
	Targets []string `json:"targets"`
	// Namespace has the MachineSet or Machine; empty for the namespace that the command uses without -n.
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

// refuseAction answers where the page may not write.
func refuseAction(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "the page may not write: start kubectl drover ui with --write", http.StatusForbidden)
}

// serveAction serves POST /api/actions.
func (s *server) serveAction(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r, "application/json", maxActionBytes)
	if !ok {
		return
	}
	var action Action
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&action)
	dryRun := r.URL.RawQuery == dryRunQuery
	if err == nil && !dryRun && r.URL.RawQuery != "" {
		// A request for a dry run must not write, also with a parameter that is misspelled or cannot be parsed.
		err = errors.New("the only parameter is " + dryRunQuery)
	}
	var args []string
	if err == nil {
		args, err = action.args()
	}
	if err != nil {
		http.Error(w, model.Text(err.Error(), maxText), http.StatusBadRequest)
		return
	}
	namespace := cmp.Or(action.Namespace, s.flags.namespace)
	line := &commandLine{args: args, namespace: namespace}
	if dryRun {
		line.args = slices.Concat(args, []string{"--dry-run=server"})
	}
	result, ok := s.runCommand(w, r, line)
	if !ok {
		return
	}
	writeJSON(w, ActionResult{
		TypeMeta: view.TypeMeta{APIVersion: view.APIVersion, Kind: "ActionResult"}, Command: s.flags.commandText(args, namespace),
		DryRun: dryRun, Output: linesOf(append(result.out, result.errOut...)), Errors: messagesOf(result.err),
	})
}

// pausedKinds are the kinds of the targets of pause and resume, and maxReasonBytes is how long a reason can be.
var pausedKinds = []string{"nodegroup", "machineset", "machine", "node"}

const maxReasonBytes = 1024

// args returns the arguments of the command. No target can be a flag.
func (a *Action) args() ([]string, error) {
	if err := a.check(); err != nil {
		return nil, err
	}
	args := slices.Clone(actionCommands[a.Action])
	for _, target := range a.Targets {
		if !a.takes(target) {
			return nil, fmt.Errorf("%q is not a target of %s", target, a.Action)
		}
		args = append(args, target)
	}
	flags, err := a.flagArgs()
	return append(args, flags...), err
}

// actionCommands are the commands of the actions.
var actionCommands = map[ActionName][]string{
	Pause: {"pause"}, Resume: {"resume"}, StartMaintenance: {"maintenance", "start"}, EndMaintenance: {"maintenance", "end"},
}

// check refuses an action that is not known or out of bounds.
func (a *Action) check() error {
	switch {
	case actionCommands[a.Action] == nil:
		return fmt.Errorf("there is no action %q", a.Action)
	case len(a.Targets) == 0 || len(a.Targets) > maxTargets:
		return fmt.Errorf("an action takes 1 to %d targets, not %d", maxTargets, len(a.Targets))
	case a.Namespace != "" && len(validation.IsDNS1123Label(a.Namespace)) > 0:
		return fmt.Errorf("%q is not the name of a namespace", a.Namespace)
	case len(a.Reason) > maxReasonBytes || !utf8.ValidString(a.Reason):
		return fmt.Errorf("the reason must have at most %d bytes", maxReasonBytes)
	case cmdutil.Escape(a.Reason) != a.Reason || strings.ContainsAny(a.Reason, "\n\t"):
		// A user copies the command with the reason into a terminal, which obeys control characters also within quotes.
		return errors.New("the reason must be one line without control characters")
	}
	return nil
}

// takes reports whether the action takes a target.
func (a *Action) takes(target string) bool {
	name := target
	if a.Action == Pause || a.Action == Resume {
		kind, after, _ := strings.Cut(target, "/")
		if !slices.Contains(pausedKinds, kind) {
			return false
		}
		name = after
	}
	return len(validation.IsDNS1123Subdomain(name)) == 0
}

// flagArgs returns the flags of the command.
func (a *Action) flagArgs() (args []string, err error) {
	starts := a.Action == StartMaintenance
	switch {
	case a.Reason != "" && !starts && a.Action != Pause:
		return nil, fmt.Errorf("%s takes no reason", a.Action)
	case (a.Deadline != "" || a.Force) && !starts:
		return nil, fmt.Errorf("%s takes no deadline", a.Action)
	}
	if a.Reason != "" {
		args = append(args, "--reason="+a.Reason)
	}
	if a.Deadline != "" {
		length, err := time.ParseDuration(a.Deadline)
		if err != nil {
			return nil, fmt.Errorf("deadline: %w", err)
		}
		args = append(args, "--deadline="+length.String())
	}
	if a.Force {
		args = append(args, "--force")
	}
	return args, nil
}
