package e2e

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/harness"
)

// standard reads the metrics of libraries that alerts and dashboards ask for, with the labels that they ask for.
func standard(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../monitoring/standard.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Served map[string][]string `json:"served"`
		Later  map[string]string   `json:"later"`
	}
	if err := yaml.UnmarshalStrict(text, &all); err != nil {
		t.Fatal(err)
	}
	return all.Served
}

// TestOperator_ServesMetricsOfAlerts compares what alerts and dashboards ask for with what an operator serves.
func TestOperator_ServesMetricsOfAlerts(t *testing.T) {
	w, wanted := harness.NewWorld(t, env), standard(t)
	operator := w.Operator(harness.Options{Elect: true})
	if err := operator.Says(t.Context(), "capability metadata: running"); err != nil {
		t.Fatal(err)
	}
	// A controller has series of its queue and its passes from its first one on.
	if err := w.Client.Create(t.Context(), builder.NodeMaintenance("nowhere", "nowhere")); err != nil {
		t.Fatal(err)
	}
	token, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("all series", func() error {
		text, err := operator.Scrape(t.Context(), token)
		if err != nil {
			return err
		}
		return missing(text, wanted)
	})
}

// missing returns the series that an operator does not serve.
func missing(text string, wanted map[string][]string) error {
	var all []error
	series := regexp.MustCompile(`(?m)^([a-z_:]+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1)
	for metric, labels := range wanted {
		found := slices.ContainsFunc(series, func(line []string) bool {
			return line[1] == metric && !slices.ContainsFunc(labels, func(label string) bool {
				return !strings.Contains(","+line[2], ","+label+`="`)
			})
		})
		if !found {
			all = append(all, fmt.Errorf("no series of %s with the labels %v", metric, labels))
		}
	}
	if !regexp.MustCompile(`(?m)^leader_election_master_status(\{.*\})? 1$`).MatchString(text) {
		all = append(all, errors.New("the operator that leads does not say so"))
	}
	if !regexp.MustCompile(`(?m)^drover_maintenances\{group="nodemaintenance.medik8s.io",phase="Failed"\} 1$`).MatchString(text) {
		all = append(all, errors.New("the maintenance of a node that is not there has not failed"))
	}
	return errors.Join(all...)
}
