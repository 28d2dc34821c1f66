// Command docs writes docs/metrics.md from the metrics that the capabilities register, docs/events.md and docs/conditions.md from the comments of the
// constants that are reasons of events and conditions, and docs/reference from the command lines and the types of the configuration. Run it from the
// root of the repository: go run ./hack/docs. With -man FOLDER it writes manual pages there instead.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"github.com/drover-io/drover/internal/autoscaling"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/machine"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/internal/upgrade"
)

// capability is what one capability has to document. A new one is an entry in capabilities.
type capability struct {
	// name is the capability's; empty for what belongs to the operator as a whole.
	name    string
	metrics []register
	// events are the folders of the packages that declare reasons of events.
	events     []string
	conditions []conditionSource
}

var capabilities = []capability{
	{metrics: []register{registers(operator.NewMetrics), registerUndecodable}, events: []string{"internal/undecodable"}},
	{name: metadata.Name, metrics: []register{registers(metadata.NewMetrics)}, events: []string{"internal/metadata"}},
	{
		name:    nodegroup.Name,
		metrics: []register{registers(nodegroup.NewMetrics), registers(replacement.NewMetrics), registers(grouplayer.NewMetrics)},
		events:  []string{"internal/nodegroup", "internal/nodegroup/replacement", "internal/metadata/grouplayer"},
		conditions: []conditionSource{{
			folders: []string{"internal/nodegroup/plan", "internal/rollout", "internal/nodegroup/replacement/plan", "internal/disruption/plan"},
			kinds:   []conditionKind{{"NodeGroup", []string{"Ready", "Progressing", "Blocked", "Overlapping"}}},
		}},
	},
	{
		name:    "maintenance",
		metrics: []register{registers(maintenance.NewMetrics), registers(engine.NewMetrics)},
		events:  []string{"internal/maintenance"},
		conditions: []conditionSource{{
			folders: []string{"internal/maintenance/plan"},
			kinds:   []conditionKind{{"NodeMaintenance", []string{"Ready", "LeaseHeld", "Cordoned", "Drained"}}},
		}},
	},
	{
		name:    "machines",
		metrics: []register{registers(machineset.NewMetrics), registers(machine.NewMetrics), registers(healthcheck.NewMetrics), registerVSphere},
		events:  []string{"internal/machineset", "internal/machineset/capacity", "internal/machine/plan", "internal/healthcheck"},
		conditions: []conditionSource{
			{
				folders: []string{"internal/machineset/plan"},
				kinds:   []conditionKind{{"MachineSet", []string{"Paused", "MachinesCreated", "Resized", "MachinesReady"}}},
			},
			{
				folders: []string{"internal/machine/plan"},
				kinds:   []conditionKind{{"Machine", []string{"InstanceExists", "Drainable", "Terminable", "Drained", "Paused", "Ready"}}},
			},
			{
				folders: []string{"internal/healthcheck/plan"},
				kinds: []conditionKind{{"MachineHealthCheck", []string{
					"RemediationAllowed", "ExternalRemediationTemplateAvailable", "ExternalRemediationRequestAvailable", "RemediationProgressing",
					"SelectorExclusive", "Paused",
				}}},
			},
		},
	},
	{
		name:   autoscaling.Name,
		events: []string{"internal/autoscaling"},
		conditions: []conditionSource{{
			folders: []string{"internal/autoscaling/plan"}, kinds: []conditionKind{{"MachineAutoscaler", []string{"Ready"}}},
		}},
	},
	{
		name:    upgrade.Name,
		metrics: []register{registers(upgrade.NewMetrics)},
		events:  []string{"internal/upgrade"},
		conditions: []conditionSource{{
			folders: []string{"internal/upgrade/plan"},
			kinds: []conditionKind{
				{"MutexRule, MutexTarget", []string{"ValidConfig"}},
				{"MutexTarget", []string{"NodeListGathered"}},
				{"MutexRunConfig", []string{
					"ConfigValidated", "UpgradeChecked", "UpgradeAvailable", "UpgradeReady", "TargetPoolsPaused", "MutexRulesApplied", "MCPUpdated",
					"JobRun", "NodeUpgrade",
				}},
			},
		}},
	},
}

// section is what the pages have about one capability.
type section struct {
	Name       string
	Metrics    []metric
	Events     []event
	Conditions []condition
}

// readSections returns the sections of all capabilities. The root is that of the repository.
func readSections(root string) ([]section, error) {
	var all []section
	for _, c := range capabilities {
		s := section{Name: c.name}
		var err error
		if s.Metrics, err = metricsOf(c.metrics); err != nil {
			return nil, err
		}
		if s.Events, err = eventsOf(root, c.events); err != nil {
			return nil, err
		}
		for _, source := range c.conditions {
			conditions, err := conditionsOf(root, source)
			if err != nil {
				return nil, err
			}
			s.Conditions = append(s.Conditions, conditions...)
		}
		all = append(all, s)
	}
	return all, nil
}

func main() {
	manuals := flag.String("man", "", "write manual pages into this folder, and nothing else")
	flag.Parse()
	run := generate
	if *manuals != "" {
		run = func() error { return writeManuals(*manuals) }
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

// generate writes all pages below docs.
func generate() error {
	all, err := references(".")
	if err != nil {
		return err
	}
	sections, err := readSections(".")
	if err != nil {
		return err
	}
	generated, err := pages(sections)
	if err != nil {
		return err
	}
	maps.Copy(all, generated)
	return write("docs", all)
}

// write puts each page into a folder.
func write(folder string, pages map[string]string) error {
	for name, text := range pages {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // so is its folder
			return err
		}
		//nolint:gosec // a page of the repository is for everybody to read
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
