package monitoring

import (
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/healthcheck"
	checkplan "github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machine"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/operator" // what its libraries register comes with it
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/upgrade"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// describer is a registry that describes its metrics, also metrics that have no series yet.
type describer interface{ Describe(chan<- *prometheus.Desc) }

// exposed returns the labels of all metrics that an operator with all capabilities serves, by name: its own metrics and the metrics of its libraries.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	own := prometheus.NewRegistry()
	for _, register := range []func(prometheus.Registerer) error{
		func(r prometheus.Registerer) error { _, err := metadata.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := maintenance.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := engine.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := machineset.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := machine.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := healthcheck.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := upgrade.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := nodegroup.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := grouplayer.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := replacement.NewMetrics(r); return err },
		func(r prometheus.Registerer) error { _, err := operator.NewMetrics(r); return err },
		undecodable.NewTracker().Register,
	} {
		if err := register(own); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string][]string{}
	for _, registry := range []any{own, ctrlmetrics.Registry} {
		from, ok := registry.(describer)
		if !ok {
			t.Fatalf("a %T does not describe its metrics", registry)
		}
		descriptions := make(chan *prometheus.Desc)
		go func() {
			defer close(descriptions)
			from.Describe(descriptions)
		}()
		for description := range descriptions {
			name, labels := parse(t, description)
			all[name] = labels
		}
	}
	return all
}

// description is how client_golang writes what it knows of a metric. There is no other way to its name.
var description = regexp.MustCompile(`(?s)^Desc\{fqName: "([^"]+)", help: ".*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)

func parse(t *testing.T, desc *prometheus.Desc) (name string, labels []string) {
	t.Helper()
	match := description.FindStringSubmatch(desc.String())
	if match == nil {
		t.Fatalf("cannot read %s", desc)
	}
	for constant := range strings.SplitSeq(match[2], ",") {
		if key, _, found := strings.Cut(constant, "="); found {
			labels = append(labels, key)
		}
	}
	for variable := range strings.SplitSeq(match[3], ",") {
		if variable != "" {
			labels = append(labels, strings.TrimSpace(variable))
		}
	}
	return match[1], labels
}

func TestMetrics_RegisteredAreDocumented(t *testing.T) {
	page := readFile(t, "docs/metrics.md")
	for name := range exposed(t) {
		if isOwn(name) && !strings.Contains(page, "\n| `"+name+"` |") {
			t.Errorf("%s is registered, and docs/metrics.md does not have it", name)
		}
	}
}

// values are what a label of a metric can be, where that is a fixed list: a word that is none of them would never match.
func values() map[[2]string][]string {
	results := texts(status.OK, status.Stale, status.Gone, status.Denied, status.Transient)
	machinePhases := []string{"", "Provisioning", "Provisioned", "Running", "Deleting", "Failed"}
	return map[[2]string][]string{
		{"drover_capability_state", "state"}:                operator.States(),
		{"drover_metadata_nodes", "state"}:                  texts(plan.Held, plan.Conflicted, plan.RefusedState, plan.Pending, plan.Synced),
		{"drover_metadata_writes_total", "result"}:          results,
		{"drover_maintenances", "phase"}:                    texts(v1beta1.PhaseRunning, v1beta1.PhaseSucceeded, v1beta1.PhaseFailed),
		{"drover_maintenance_nodes", "phase"}:               texts(v1beta1.PhaseRunning, v1beta1.PhaseFailed),
		{"drover_drain_pods_left", "reason"}:                texts(drain.Reasons...),
		{"drover_machineset_creates_total", "result"}:       results,
		{"drover_machineset_deletes_total", "result"}:       results,
		{"drover_healthcheck_remediations_total", "result"}: results,
		{"drover_healthcheck_waiting_machines", "reason"}:   checkplan.BlockedReasons,
		{"mapi_machine_created_timestamp_seconds", "phase"}: machinePhases,
		{"drover_upgrade_run_phase", "phase"}: texts(v1alpha1.PhaseInvalid, v1alpha1.PhaseIdle, v1alpha1.PhaseClaimed, v1alpha1.PhaseWaiting,
			v1alpha1.PhaseRunning, v1alpha1.PhaseStopped, v1alpha1.PhaseSuspended, v1alpha1.PhaseAborted, v1alpha1.PhaseRestoring,
			v1alpha1.PhaseDryRun, v1alpha1.PhaseDone),
		{"drover_upgrade_nodes", "phase"}: texts(v1alpha1.NodePending, v1alpha1.NodeRunningJobs, v1alpha1.NodeReleased, v1alpha1.NodeUpgrading,
			v1alpha1.NodeCleaningUp, v1alpha1.NodeDone, v1alpha1.NodeFailed),
		{"drover_upgrade_jobs_total", "result"}: {"created", "failed"},
		{"drover_upgrade_jobs_total", "kind"}:   texts(upgradeplan.BeforeUpgrade, upgradeplan.AfterUpgrade),
	}
}

func texts[T ~string](words ...T) []string {
	var all []string
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}
