package operator

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/undecodable"
)

// nowhere is a cluster that does not answer. Port 1 of the own host is closed.
var nowhere = &rest.Config{Host: "http://127.0.0.1:1", QPS: 7, Burst: 7}

// quietSettings serve nothing and need no lease.
func quietSettings() *v1alpha1.DroverConfiguration {
	settings := config.Default()
	settings.LeaderElection.Enabled = new(false)
	settings.Metrics.BindAddress, settings.Health.BindAddress = new("0"), new("0")
	return settings
}

func quietManager(t *testing.T) manager.Manager {
	t.Helper()
	mgr, err := NewManager(nowhere, quietSettings())
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func TestManagerConnectsAsDrover(t *testing.T) {
	connection := quietManager(t).GetConfig()
	// A limit of the client would be one for all requests together; Drover bounds its Node writes itself.
	if connection.QPS != -1 || !strings.Contains(connection.UserAgent, "drover/") {
		t.Errorf("QPS %v, agent %s", connection.QPS, connection.UserAgent)
	}
	if nowhere.QPS != 7 || nowhere.UserAgent != "" {
		t.Error("the caller's configuration was changed")
	}
}

func TestLeaderElectionNeedsANamespace(t *testing.T) {
	election := config.Default().LeaderElection
	election.Namespace = "drover"
	lock, err := newLock(nowhere, election)
	if err != nil {
		t.Fatal(err)
	}
	if got := lock.Describe(); got != "drover/drover" {
		t.Errorf("the lease is %s", got)
	}
	other, err := newLock(nowhere, election)
	if err != nil || other.Identity() == lock.Identity() {
		t.Errorf("two replicas on one host have one identity: %v, %s", err, lock.Identity())
	}
	if _, err := podNamespace(); !errors.Is(err, fs.ErrNotExist) {
		t.Skip("this is a Pod")
	}
	settings := quietSettings()
	settings.LeaderElection.Enabled = new(true)
	if _, err := NewManager(nowhere, settings); err == nil || !strings.Contains(err.Error(), "give --leader-elect-namespace") {
		t.Errorf("error %v", err)
	}
	settings.LeaderElection.Namespace = "drover"
	if _, err := NewManager(nowhere, settings); err != nil {
		t.Error(err)
	}
}

func TestCapabilitiesArePicked(t *testing.T) {
	// The process has one registry, and each name fits into it once.
	defer func(registry ctrlmetrics.RegistererGatherer) { ctrlmetrics.Registry = registry }(ctrlmetrics.Registry)
	mgr := quietManager(t)
	settings := quietSettings()
	for picked, want := range map[string]string{
		"*": "metadata maintenance maintenance-kubevirt machines autoscaling upgrade node-groups", "metadata": "metadata",
		"*,-metadata": "maintenance maintenance-kubevirt machines autoscaling upgrade node-groups", "maintenance": "maintenance",
		"*,-maintenance-kubevirt": "metadata maintenance machines autoscaling upgrade node-groups", "machines": "machines", "upgrade": "upgrade",
		"node-groups": "node-groups", "autoscaling": "autoscaling",
		"*,-machines": "metadata maintenance maintenance-kubevirt autoscaling upgrade node-groups",
	} {
		ctrlmetrics.Registry = prometheus.NewRegistry()
		settings.Controllers = strings.Split(picked, ",")
		found, err := (&builder{Manager: mgr, settings: settings, leases: newLeases(mgr)}).capabilities()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, c := range found {
			names = append(names, c.name)
			if len(c.needs) == 0 || len(c.watches) == 0 || len(c.own) == 0 {
				t.Errorf("%s needs %v, watches %v and lets go of %v", c.name, c.needs, c.watches, c.own)
			}
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("--controllers=%s: %s", picked, got)
		}
	}
	if err := config.Validate(settings, CapabilityNames()).ToAggregate(); err != nil {
		t.Error(err)
	}
}

func TestHealthIsServedUnlessSwitchedOff(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(nowhere)
	if err != nil {
		t.Fatal(err)
	}
	off := ""
	for _, name := range CapabilityNames() {
		off += "capability " + name + ": off (not in --controllers)\n"
	}
	for address, want := range map[string]int{"0": 0, "127.0.0.1:0": 1} {
		added := &runnables{}
		metrics, _ := quietMetrics(t)
		err := addHealth(added, newCapabilityManager(nil, nil, nil, nil, nil, metrics), undecodable.NewTracker(), client, address)
		if err != nil || len(added.all) != want {
			t.Fatalf("%s: %v, %v", address, added.all, err)
		}
		if want == 0 {
			continue
		}
		probes, ok := added.all[0].(*endpoint)
		if !ok {
			t.Fatalf("a %T was added", added.all[0])
		}
		wanted := "[-]api-server failed: "
		code, body := get(t, probes.handler, "/readyz?verbose")
		if code != 503 || !strings.HasPrefix(body, wanted) || !strings.HasSuffix(body, "[+]caches ok\ndrover: devel\n"+off) {
			t.Errorf("%d %s", code, body)
		}
	}
}

// runnables notes what is given to a manager to run.
type runnables struct {
	manager.Manager
	all []manager.Runnable
}

func (r *runnables) Add(runnable manager.Runnable) error {
	r.all = append(r.all, runnable)
	return nil
}

// Drover is installed before the CRDs of the Machine API on some clusters, and on others these never come: it has to start there, too.
func TestManagerIsBuiltWithoutTheCRDs(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	for _, namespace := range []string{"", config.DefaultNamespace} {
		settings := quietSettings()
		settings.Namespace = new(namespace)
		if _, err := NewManager(&rest.Config{Host: server.URL}, settings); err != nil {
			t.Errorf("namespace %q: %v", namespace, err)
		}
	}
}
