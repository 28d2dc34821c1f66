package ui

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/browser"
)

// axeFile is where npm puts axe-core, which `make ui` installs.
const axeFile = "../../../ui/node_modules/axe-core/axe.min.js"

// rules are those of WCAG 2.2 AA.
const rules = `["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]`

// checkAccessibility fails the test for each violation that axe finds in the page.
func checkAccessibility(t *testing.T, page *browser.Page) {
	t.Helper()
	source, err := os.ReadFile(axeFile)
	if err != nil {
		t.Skipf("axe-core is not installed; hack/ui.sh test installs it: %v", err)
	}
	page.Eval(string(source)+"\n;0", nil)
	var violations []struct {
		ID    string
		Help  string
		Nodes []struct{ HTML, FailureSummary string }
	}
	page.Eval("axe.run({ runOnly: "+rules+" }).then((found) => found.violations)", &violations)
	for _, violation := range violations {
		for _, node := range violation.Nodes {
			t.Errorf("%s: %s: %s: %s", violation.ID, violation.Help, node.HTML, node.FailureSummary)
		}
	}
}

// checkWidth fails the test if the page is wider than the window: then people have to scroll sideways to read.
func checkWidth(t *testing.T, page *browser.Page) {
	t.Helper()
	var width struct{ Page, Window int }
	page.Eval("({ Page: document.scrollingElement.scrollWidth, Window: innerWidth })", &width)
	if width.Page > width.Window {
		t.Errorf("the page is %d pixels wide in a window of %d", width.Page, width.Window)
	}
}

// views are the addresses of the views of the invented fleet, and a text that each shows when it is complete.
var views = []struct{ name, query, text string }{
	{"fleet", "", "database"},
	{"fleet with a node", "?selected=node-00005&group=zone", "Open the node's page"},
	{"fleet as a list", "?as=list", "node-00017"},
	{"fleet without a match", "?q=nothing", "No node matches"},
	{"waits", "?view=waits", "NodesNotReady"},
	{"progress", "?view=progress&finished=yes", "Windows and freezes"},
	{"plan", "?view=plan", "Manifest, in YAML or JSON"},
	{"node", "?view=node&node=node-00005", "Who owns what"},
	{"no such node", "?view=node&node=missing", "cannot be shown"},
}

func TestPage_Views(t *testing.T) {
	chromium := browser.Start(t)
	s := serve(t, newFleet(t, 600, time.Now()))
	s.warm(t)
	windows := map[string]browser.Options{
		"light": {}, "dark": {Dark: true}, "narrow": {Width: 390, Height: 844}, "narrow and dark": {Width: 390, Height: 844, Dark: true},
	}
	if testing.Short() {
		windows = map[string]browser.Options{"light": {}}
	}
	for window, options := range windows {
		page := chromium.Open(t, s.at(""), options)
		for _, view := range views {
			t.Run(window+"/"+view.name, func(t *testing.T) {
				page := page.With(t)
				page.Go(s.at(view.query))
				page.UntilText(view.text)
				checkWidth(t, page)
				checkAccessibility(t, page)
			})
		}
		expectProblems(t, page, "404")
	}
}

func TestPage_Keyboard(t *testing.T) {
	s := serve(t, newFleet(t, 100, time.Now()))
	page := browser.Start(t).Open(t, s.at(""), browser.Options{})
	page.UntilText("100 nodes")
	page.Press(kb.Tab)
	page.Until(`document.activeElement.textContent === "Skip to the content"`)
	page.Press(kb.Enter + "/")
	page.Until(`document.activeElement.id === "search"`)
	page.Insert("node-0000")
	page.UntilText("10 of 100 nodes")
	page.Until(`location.search === "?q=node-0000"`)

	page.Eval(`document.querySelector("[role=listbox]").focus()`, nil)
	page.Press(kb.Home + kb.ArrowRight)
	var second string
	page.Eval(`document.getElementById("active-cell").getAttribute("aria-label").split(",")[0]`, &second)
	page.Press(kb.Enter)
	page.Until(fmt.Sprintf("location.search.includes(%q)", "selected="+second))
	page.UntilText("Open the node's page")
	page.Press(kb.Escape)
	page.Until(`!location.search.includes("selected")`)
	page.Press(kb.Enter)
	page.UntilText("Open the node's page")
	page.Press(kb.Enter)
	page.Until(fmt.Sprintf("document.querySelector('h1').textContent === %q", second))
	page.Eval("history.back()", nil)
	page.Until(fmt.Sprintf("location.search.includes(%q)", "selected="+second))
}

func TestPage_Mouse(t *testing.T) {
	s := serve(t, newFleet(t, 100, time.Now()))
	page := browser.Start(t).Open(t, s.at("?group=none"), browser.Options{})
	page.UntilText("100 nodes")
	var at struct{ X, Y float64 }
	page.Eval(`(({ x, y }) => ({ X: x + 14, Y: y + 32 + 14 }))(document.querySelector("[role=listbox]").getBoundingClientRect())`, &at)
	page.ClickAt(at.X, at.Y)
	page.Until(`location.search.includes("selected=node-00000")`)
	page.Click(".close")
	page.Until(`!document.querySelector(".panel")`)
	page.Click(".legend button:not([disabled])")
	page.Until(`location.search.includes("state=")`)
	page.Until(`document.querySelector(".count").textContent.includes("of 100 nodes")`)
}

// TestPage_Changes: cells that change are drawn again, and no others; the counts follow.
func TestPage_Changes(t *testing.T) {
	nodes := make([]client.Object, 0, 50)
	for i := range cap(nodes) {
		nodes = append(nodes, builder.Node(nodeName(i), builder.WithReady(corev1.ConditionTrue)))
	}
	s := serve(t, nodes)
	page := browser.Start(t).Open(t, s.at("?selected="+nodeName(7)), browser.Options{})
	page.Until(`document.querySelector(".panel")?.textContent.includes("Unmanaged")`)
	// All cells are drawn when the size of the window is known.
	page.Until(`document.querySelector(".tile")?.style.width === document.querySelector(".grid").clientWidth + "px"`)
	page.Eval(`(() => {
		window.drawn = 0;
		const put = CanvasRenderingContext2D.prototype.putImageData;
		CanvasRenderingContext2D.prototype.putImageData = function (...args) { window.drawn++; return put.apply(this, args); };
	})()`, nil)
	node := builder.Node(nodeName(7))
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	node.Spec.Unschedulable = true
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	page.Until(`document.querySelector(".panel").textContent.includes("Disrupted by others")`)
	var drawn int
	page.Eval("window.drawn", &drawn)
	if drawn != 1 {
		t.Errorf("%d cells were drawn for one change", drawn)
	}
}

// hostile are texts that others can write into the cluster.
var hostile = map[string]string{
	"script":        `<script>window.harmed = true</script><img src=x onerror="window.harmed = true">`,
	"long":          strings.Repeat("w", 253),
	"right to left": "\u202eedon eht si siht\u202c نقطة",
	"prototype":     "__proto__",
}

func TestPage_HostileTexts(t *testing.T) {
	chromium := browser.Start(t)
	for name, text := range hostile {
		t.Run(name, func(t *testing.T) {
			group := builder.NodeGroup(text)
			group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "all"}}
			group.Status.Conditions = []metav1.Condition{{
				Type: "Blocked", Status: metav1.ConditionTrue, Reason: text, Message: text, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour)),
			}}
			node := builder.Node(nodeName(1), builder.WithNodeLabels(map[string]string{"pool": "all", "topology.kubernetes.io/zone": text}))
			node.Annotations = map[string]string{"example.com/" + text: text}
			s := serve(t, []client.Object{group, node})
			s.warm(t)
			page := chromium.Open(t, s.at("?selected="+nodeName(1)), browser.Options{Width: 390, Height: 844})
			for _, view := range []string{
				"?selected=" + nodeName(1), "?group=zone&as=list", "?view=waits", "?view=progress", "?view=node&node=" + nodeName(1),
			} {
				page.Go(s.at(view))
				page.Until(`document.querySelector("main .view")`)
				page.Until(`!document.body.innerText.includes("Reading")`)
				checkWidth(t, page)
			}
			shown, err := json.Marshal(text[:min(len(text), 30)])
			if err != nil {
				t.Fatal(err)
			}
			var harmed bool
			page.Eval("Boolean(window.harmed || document.querySelector('main script, main img'))", &harmed)
			if harmed {
				t.Error("a text of the cluster has become markup")
			}
			if name != "right to left" {
				page.Until(fmt.Sprintf("document.body.innerText.includes(%s)", shown))
			}
		})
	}
}

func TestPage_Sizes(t *testing.T) {
	chromium := browser.Start(t)
	for _, count := range []int{0, 1, 20_000} {
		if testing.Short() && count > 1 {
			continue
		}
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			var objects []client.Object
			if count > 0 {
				objects = newFleet(t, count, time.Now())
			}
			s := serve(t, objects)
			page := chromium.Open(t, s.at(""), browser.Options{})
			if count == 0 {
				page.UntilText("The cluster has no nodes")
				return
			}
			page.Until(fmt.Sprintf(`document.querySelector(".count")?.textContent.startsWith("%d ")`, count))
			page.Eval(`document.querySelector(".grid").scrollTop = 1e9`, nil)
			page.Until(`document.querySelectorAll(".tile").length > 0`)
			page.Eval(`document.querySelector("[role=listbox]").focus()`, nil)
			page.Press(kb.End + kb.Enter)
			page.UntilText("Open the node's page")
			checkWidth(t, page)
		})
	}
}

func TestPage_WithoutTheToken(t *testing.T) {
	s := serve(t, newFleet(t, 1, time.Now()))
	page := browser.Start(t).Open(t, s.address, browser.Options{})
	page.UntilText("This page needs its address")
	page.Go(s.address + "#token=wrong")
	page.Eval("location.reload()", nil)
	page.Until(`document.querySelector(".empty") && !location.hash`)
	page.UntilText("This page needs its address")
	expectProblems(t, page, "401")
}

// expectProblems fails the test unless the page has logged problems with a text, and no others: a browser logs requests that fail itself.
func expectProblems(t *testing.T, page *browser.Page, text string) {
	t.Helper()
	problems := page.Problems()
	if len(problems) == 0 {
		t.Errorf("the page has not logged %s", text)
	}
	for _, problem := range problems {
		if !strings.Contains(problem, text) {
			t.Errorf("the page has logged: %s", problem)
		}
	}
}
