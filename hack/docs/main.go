// Command docs writes docs/metrics.md, docs/events.md and docs/conditions.md from what the capabilities say of themselves, and docs/reference
// from the command lines and the types of the configuration. Run it from the root of the repository: go run ./hack/docs. With -man FOLDER it
// writes manual pages there instead.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/drover-io/drover/internal/autoscaling"
	autoscalingplan "github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/healthcheck"
	checkplan "github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machine"
	machineplan "github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/machineset/capacity"
	setplan "github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/maintenance"
	maintenanceplan "github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/nodes"
	"github.com/drover-io/drover/internal/nodegroup"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/upgrade"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// capability is what one capability has to document. A new one is a line in capabilities.
type capability struct {
	// Name is the capability's; empty for what belongs to the operator as a whole.
	Name       string
	Metrics    []register
	Events     []status.EventDoc
	Conditions []status.ConditionDoc
}

var capabilities = []capability{
	{Metrics: []register{registers(operator.NewMetrics), registerUndecodable}, Events: undecodable.Events},
	{Name: metadata.Name, Metrics: []register{registers(metadata.NewMetrics)}, Events: metadata.Events},
	{
		Name:       nodegroup.Name,
		Metrics:    []register{registers(nodegroup.NewMetrics), registers(replacement.NewMetrics), registers(nodes.NewMetrics)},
		Events:     slices.Concat(nodegroup.EventDocs(), nodes.Events),
		Conditions: groupplan.ConditionDocs(),
	},
	{
		Name: "maintenance", Metrics: []register{registers(maintenance.NewMetrics), registers(engine.NewMetrics)}, Events: maintenance.EventDocs(),
		Conditions: maintenanceplan.ConditionDocs(),
	},
	{
		Name: "machines",
		Metrics: []register{
			registers(machineset.NewMetrics), registers(machine.NewMetrics), registers(healthcheck.NewMetrics), registerVSphere,
		},
		Events:     slices.Concat(machineset.Events, capacity.Events, machineplan.EventDocs(), healthcheck.Events),
		Conditions: slices.Concat(setplan.ConditionDocs(), machineplan.ConditionDocs(), checkplan.ConditionDocs()),
	},
	{Name: autoscaling.Name, Events: autoscaling.Events, Conditions: autoscalingplan.ConditionDocs()},
	{Name: upgrade.Name, Metrics: []register{registers(upgrade.NewMetrics)}, Events: upgrade.EventDocs(), Conditions: upgradeplan.ConditionDocs()},
}

// section is what the pages have about one capability.
type section struct {
	Name       string
	Metrics    []metric
	Events     []status.EventDoc
	Conditions []status.ConditionDoc
}

// readSections returns the sections of all capabilities.
func readSections() ([]section, error) {
	var all []section
	for _, c := range capabilities {
		metrics, err := metricsOf(c.Metrics)
		if err != nil {
			return nil, err
		}
		all = append(all, section{c.Name, metrics, c.Events, c.Conditions})
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
	sections, err := readSections()
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
