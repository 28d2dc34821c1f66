// Package live compares what the alerts and dashboards are made for with what an operator serves that runs.
package live

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{}, &env))
}

// standard are the metrics of controller-runtime, client-go and Go that the alerts and dashboards ask for, with the labels they ask for. The
// test of the expressions takes their names from the registries; here they have to be served, with these labels. What counts the webhook's
// requests and unreadable certificates has no series before the first.
var standard = map[string][]string{
	"leader_election_master_status":                    nil,
	"process_start_time_seconds":                       nil,
	"process_resident_memory_bytes":                    nil,
	"process_cpu_seconds_total":                        nil,
	"go_goroutines":                                    nil,
	"go_memstats_heap_inuse_bytes":                     nil,
	"controller_runtime_reconcile_total":               {"controller", "result"},
	"controller_runtime_reconcile_errors_total":        {"controller"},
	"controller_runtime_reconcile_panics_total":        {"controller"},
	"controller_runtime_reconcile_time_seconds_bucket": {"controller", "le"},
	"controller_runtime_active_workers":                {"controller"},
	"controller_runtime_max_concurrent_reconciles":     {"controller"},
	"workqueue_depth":                                  {"controller"},
	"workqueue_queue_duration_seconds_bucket":          {"controller", "le"},
	"workqueue_longest_running_processor_seconds":      {"controller"},
	"rest_client_requests_total":                       {"code", "method"},
	"certwatcher_read_certificate_errors_total":        nil,
}

func TestTheOperatorServesWhatTheAlertsAskFor(t *testing.T) {
	w := harness.NewWorld(t, env)
	operator := w.Operator(harness.Options{Elect: true})
	if err := operator.Says(t.Context(), "capability metadata: running"); err != nil {
		t.Fatal(err)
	}
	token, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	text, err := operator.Scrape(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	series := regexp.MustCompile(`(?m)^([a-z_:]+)(?:\{(.*)\})? \S+$`).FindAllStringSubmatch(text, -1)
	for metric, labels := range standard {
		found := slices.ContainsFunc(series, func(line []string) bool {
			return line[1] == metric && !slices.ContainsFunc(labels, func(label string) bool {
				return !strings.Contains(","+line[2], ","+label+`="`)
			})
		})
		if !found {
			t.Errorf("no series of %s with the labels %v", metric, labels)
		}
	}
	if !regexp.MustCompile(`(?m)^leader_election_master_status(\{.*\})? 1$`).MatchString(text) {
		t.Error("the operator that leads does not say so")
	}
	controllers := regexp.MustCompile(`controller="([a-z-]+)"`).FindAllStringSubmatch(text, -1)
	for _, name := range []string{"metadata", "maintenance"} {
		if !slices.ContainsFunc(controllers, func(match []string) bool { return match[1] == name }) {
			t.Errorf("no series of the controller %s", name)
		}
	}
}
