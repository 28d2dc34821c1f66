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
	Metrics    []status.MetricDoc
	Events     []status.EventDoc
	Conditions []status.ConditionDoc
}

// providerMetrics are the metrics of the providers that come with Drover.
var providerMetrics = []status.MetricDoc{{
	Name: "drover_vsphere_calls_total", Type: "counter", Labels: []string{"server", "method", "result"},
	Help: "Calls of the provider vsphere to the API of a vCenter, by vCenter, method and result (ok, error).",
}}

var capabilities = []capability{
	{Metrics: slices.Concat(operator.MetricDocs(), undecodable.MetricDocs()), Events: undecodable.Events},
	{Name: metadata.Name, Metrics: metadata.MetricDocs, Events: metadata.Events},
	{
		Name: nodegroup.Name, Metrics: slices.Concat(nodegroup.MetricDocs(), nodes.MetricDocs), Events: slices.Concat(nodegroup.EventDocs(), nodes.Events),
		Conditions: groupplan.ConditionDocs(),
	},
	{
		Name: "maintenance", Metrics: append(maintenance.MetricDocs(), engine.MetricDocs()...), Events: maintenance.EventDocs(),
		Conditions: maintenanceplan.ConditionDocs(),
	},
	{
		Name:       "machines",
		Metrics:    slices.Concat(machineset.MetricDocs, machine.MetricDocs(), healthcheck.MetricDocs, providerMetrics),
		Events:     slices.Concat(machineset.Events, capacity.Events, machineplan.EventDocs(), healthcheck.Events),
		Conditions: slices.Concat(setplan.ConditionDocs(), machineplan.ConditionDocs(), checkplan.ConditionDocs()),
	},
	{Name: autoscaling.Name, Events: autoscaling.Events, Conditions: autoscalingplan.ConditionDocs()},
	{Name: upgrade.Name, Metrics: upgrade.MetricDocs(), Events: upgrade.EventDocs(), Conditions: upgradeplan.ConditionDocs()},
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
	generated, err := pages(capabilities)
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
