package ui

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp/kb"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/browser"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// TestRollout_WhileLooking: the fleet and the progress follow a roll-out without loading the page again.
func TestRollout_WhileLooking(t *testing.T) {
	f := newFixture(t, "rolling", 12)
	shared.For(t, env).ReportAbout(t, f.name)
	fleet, progress := f.open("?q=rolling"), f.open("?view=progress&finished=yes&q=rolling")
	untilCount(fleet, 12)
	fleet.Eval("window.stays = true", nil)
	progress.UntilText("Nothing matches")

	group := f.newGroup()
	f.create(group)
	fleet.Until(`document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("In sync 12")`)
	progress.Until(`document.querySelector(".activity")?.innerText.includes("12 of 12 nodes")`)

	// A roll-out that a user has suspended stays where it is.
	harness.Update(f.World, f.group, f.name, func(group *drover.NodeGroup) {
		group.Spec.Suspend = true
		group.Spec.Metadata.Labels["example.com/tier"] = "silver"
	})
	fleet.Until(`document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("Paused 12")`)
	progress.Until(`document.querySelector(".activity .urgency").innerText.includes("Paused")`)
	fleet.Until("window.stays")
}

// untilCount waits until a page shows so many nodes.
func untilCount(page *browser.Page, count int) {
	page.Helper()
	page.Until(fmt.Sprintf(`document.querySelector(".count")?.textContent.startsWith("%d ")`, count))
}

// group reads a NodeGroup.
func (f *fixture) group(name string) *drover.NodeGroup {
	f.Helper()
	group := &drover.NodeGroup{}
	if err := f.Client.Get(f.Context(), client.ObjectKey{Name: name}, group); err != nil {
		f.Fatal(err)
	}
	return group
}

// TestViews_WaitsAndNode: a NodeGroup that a user has suspended is among what waits, and the page of its node says who owns the node's labels.
func TestViews_WaitsAndNode(t *testing.T) {
	f := newFixture(t, "viewed", 1)
	shared.For(t, env).ReportAbout(t, f.name)
	group := f.newGroup()
	group.Spec.Suspend = true
	f.create(group)
	waits, node := f.open("?view=waits&q=viewed"), f.open("?view=node&node="+f.node(0))
	waits.Until(`document.querySelector(".wait")?.innerText.includes("NodeGroup viewed")`)
	waits.Until(`document.querySelector(".wait .urgency").innerText.includes("Paused")`)
	waits.Until(`document.querySelector(".wait .reason").innerText === "Suspended"`)

	row := func(key, owner string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("tr")].some((row) => row.innerText.includes(%q) && row.innerText.includes(%q))`, key, owner)
	}
	node.Until(`document.querySelector("h1").textContent === "viewed-00000"`)
	node.Until(row(labelPool, "another writer"))
	node.Until(`document.querySelector(".facts").innerText.includes("viewed")`)
	node.UntilText("Time line")

	harness.Update(f.World, f.group, f.name, func(group *drover.NodeGroup) { group.Spec.Suspend = false })
	waits.Until(`!document.querySelector(".wait")`)
	node.Eval("location.reload()", nil)
	node.Until(row("example.com/tier", "NodeGroup viewed"))
}

// TestPlan_Manifest: a manifest is planned without being written, and what is wrong with it is said in the API server's words.
func TestPlan_Manifest(t *testing.T) {
	f := newFixture(t, "planned", 3)
	page := f.open("?view=plan")
	manifest := func(field string) string {
		return fmt.Sprintf(`apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata: {name: planned}
spec:
  nodes: {selector: {matchLabels: {%s: planned}}}
  metadata: {%s: {example.com/tier: gold}}
`, labelPool, field)
	}
	write := func(text string) {
		page.Until(`document.querySelector("#manifest")`)
		page.Eval(`document.querySelector("#manifest").focus()`, nil)
		page.Eval(`document.querySelector("#manifest").select()`, nil)
		page.Insert(text)
		page.Click(".drop .primary")
	}
	write(manifest("label"))
	page.Until(`document.querySelector(".failure pre")?.textContent.includes("label")`)
	write(manifest("labels"))
	page.Until(`document.querySelectorAll(".preview .operation-add").length > 0`)
	page.Until(`document.querySelector(".preview").innerText.includes("3 nodes")`)
	page.Until(`document.querySelector(".preview .after").textContent === "gold"`)
	if err := f.Client.Get(t.Context(), client.ObjectKey{Name: "planned"}, &drover.NodeGroup{}); client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the NodeGroup was written, or cannot be read: %v", err)
	}
	for _, problem := range page.Problems() {
		// The browser logs itself what the API server refuses.
		if !strings.Contains(problem, "422") {
			t.Errorf("the page has logged: %s", problem)
		}
	}
}

// TestActions_Maintenance: several nodes go into maintenance and come back, with the command shown and a dry run first.
func TestActions_Maintenance(t *testing.T) {
	f := newFixture(t, "acted", 3)
	page := f.open("?q=acted&as=list", "--write")
	for i := range 2 {
		page.Click(fmt.Sprintf("input[aria-label='Mark %s']", f.node(i)))
	}
	page.UntilText("2 marked")
	maintenances := func() int {
		var list medik8s.NodeMaintenanceList
		if err := f.Client.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, m := range list.Items {
			if m.DeletionTimestamp == nil && (m.Spec.NodeName == f.node(0) || m.Spec.NodeName == f.node(1)) {
				count++
			}
		}
		return count
	}
	page.Click(".marked .actions button:nth-of-type(1)")
	page.Until(`document.querySelector("dialog .outcome")?.innerText.includes("The API server has checked this")`)
	page.Until(`document.querySelector("dialog .command").textContent.includes("kubectl drover maintenance start")`)
	if count := maintenances(); count != 0 {
		t.Errorf("the dry run has created %d NodeMaintenances", count)
	}
	page.Click("dialog .primary")
	page.Until(`document.querySelector("dialog .outcome")?.innerText.includes("Maintenance started")`)
	if count := maintenances(); count != 2 {
		t.Errorf("there are %d NodeMaintenances", count)
	}
	page.Press(kb.Escape)
	page.Until(`!document.querySelector("dialog")`)
	page.Until(`[...document.querySelectorAll("tbody tr")].filter((row) => row.innerText.includes("In maintenance")).length === 2`)

	page.Click(".marked .actions button:nth-of-type(2)")
	page.Until(`document.querySelector("dialog .primary:not([disabled])")`)
	page.Click("dialog .primary")
	page.Until(`document.querySelector("dialog .outcome")?.innerText.includes("Maintenance ended")`)
	f.Eventually("the NodeMaintenances are gone", func() error {
		if count := maintenances(); count != 0 {
			return fmt.Errorf("there are %d", count)
		}
		return nil
	})
}

// TestActions_NeedWrite: without --write there is nothing to click.
func TestActions_NeedWrite(t *testing.T) {
	f := newFixture(t, "unwritten", 1)
	page := f.open("?selected=" + f.node(0))
	page.UntilText("Open the node's page")
	page.Until(`document.querySelectorAll(".actions, input[type=checkbox]").length === 0`)
}

// TestAPIServer_GoesAway: the page says so, keeps what it shows, and goes on when the API server is back.
func TestAPIServer_GoesAway(t *testing.T) {
	f := newFixture(t, "outlived", 2)
	page := f.open("?q=outlived")
	untilCount(page, 2)
	page.Until(`document.querySelector(".connection").innerText === "Live"`)
	if err := env.Kill(cluster.APIServer, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	page.UntilText("The cluster does not answer")
	untilCount(page, 2)
	if err := env.StartComponent(t.Context(), cluster.APIServer); err != nil {
		t.Fatal(err)
	}
	page.Until(`document.querySelector(".connection").innerText === "Live"`)
	f.Eventually("a Node is cordoned", func() error { return f.cordon(t.Context(), f.node(1)) })
	page.Until(`document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("Disrupted by others 1")`)
}

// TestRights_Few: the page shows what the user may read, and says what is missing.
func TestRights_Few(t *testing.T) {
	f := newFixture(t, "restricted", 2)
	reader := f.openAs(f.as("reader-of-nodes", "nodes"), "?q=restricted")
	untilCount(reader, 2)
	reader.Until(`document.querySelector(".notices summary").innerText.includes("You may not read: ")`)
	reader.Until(`document.querySelector(".notices summary").innerText.includes("nodegroups")`)
	reader.Until(`!document.querySelector(".notices summary").innerText.includes("nodes,")`)
	stranger := f.openAs(f.as("stranger"), "")
	stranger.UntilText("You may not list nodes")
	stranger.UntilText(`User "stranger" cannot list resource "nodes"`)
}

// TestMachineAPI_Absent: on a cluster without Machines the page shows nodes and groups, and says that it has no Machines.
func TestMachineAPI_Absent(t *testing.T) {
	harness.TestAllOnly(t, "a control plane of its own")
	chromium := browser.Start(t)
	c, err := cluster.Start(t.Context(), cluster.Options{UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, kind := range []string{"machines", "machinesets", "machinehealthchecks"} {
		if output, err := harness.Kubectl(t.Context(), c, nil, "delete", "crd", kind+".machine.openshift.io"); err != nil {
			t.Fatal(err, output)
		}
	}
	f := &fixture{World: harness.NewWorld(t, c), name: "plain", chromium: chromium}
	if err := f.register(t.Context(), "plain-1"); err != nil {
		t.Fatal(err)
	}
	page := chromium.Open(t, plugin.ServePage(f.World, ""), browser.Options{})
	untilCount(page, 1)
	page.Until(`document.querySelector(".notices summary").innerText.includes("Not in this cluster: ")`)
	page.Until(`document.querySelector(".notices summary").innerText.includes("machinesets")`)
	page.Until(`document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("Unmanaged 1")`)
}

// TestFleet_Large: 5,000 nodes are there within seconds, also after 100 of them have changed.
func TestFleet_Large(t *testing.T) {
	harness.TestAllOnly(t, "it creates 5,000 Nodes")
	f := newFixture(t, "large", 5000)
	page := f.open("?q=large&group=none")
	untilCount(page, 5000)
	page.Until(`performance.getEntriesByName("drover-fleet").length > 0`)
	var paint float64
	page.Eval(`performance.getEntriesByName("drover-fleet")[0].startTime`, &paint)
	t.Logf("the cells of 5,000 nodes were drawn %.0f ms after the page was opened", paint)
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range 100 {
		group.Go(func() error { return f.cordon(ctx, f.node(i*50)) })
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	page.Until(`document.querySelector(".legend").innerText.replace(/\s+/g, " ").includes("Disrupted by others 100")`)
	ctx, cancel := context.WithTimeout(t.Context(), harness.Patience)
	defer cancel()
	gone := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: f.node(0)}}
	if err := f.Client.Delete(ctx, gone); err != nil {
		t.Fatal(err)
	}
	untilCount(page, 4999)
}
