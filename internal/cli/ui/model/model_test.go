package model

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/ownership"
)

var testTime = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// readyNode returns a Node that is Ready.
func readyNode(name string, options ...func(*corev1.Node)) *corev1.Node {
	return builder.Node(name, append([]func(*corev1.Node){builder.WithReady(corev1.ConditionTrue)}, options...)...)
}

// maintenance returns a NodeMaintenance whose condition Ready has a reason; an empty one is InMaintenance.
func maintenance(node, reason string) *medik8s.NodeMaintenance {
	m := builder.NodeMaintenance("m-"+node, node)
	m.SetGroupVersionKind(medik8s.GroupVersion.WithKind("NodeMaintenance"))
	status := metav1.ConditionFalse
	if reason == "" {
		status, reason = metav1.ConditionTrue, "InMaintenance"
	}
	m.Status.Conditions = []metav1.Condition{
		{Type: "Ready", Status: status, Reason: reason, Message: "says why", LastTransitionTime: metav1.NewTime(testTime)},
	}
	return m
}

// group returns a NodeGroup that selects the Nodes with the label pool=NAME and declares a label.
func group(name string, options ...func(*drover.NodeGroup)) *drover.NodeGroup {
	g := builder.NodeGroup(name, options...)
	g.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
	g.Spec.Metadata = &drover.Metadata{Labels: map[string]drover.LabelValue{"tier": "gold"}}
	return g
}

func blocked(reason string) func(*drover.NodeGroup) {
	return func(g *drover.NodeGroup) {
		g.Status.Conditions = append(g.Status.Conditions, metav1.Condition{Type: drover.ConditionBlocked, Status: metav1.ConditionTrue, Reason: reason})
	}
}

// compute returns a tracker that has read objects.
func compute(t *testing.T, objects *Objects) *Tracker {
	t.Helper()
	var events []Event
	add := func(resource string, object client.Object) {
		events = append(events, Event{Ref{resource, client.ObjectKeyFromObject(object)}, object})
	}
	for _, node := range objects.Nodes {
		add(ResourceNodes, node)
	}
	for _, group := range objects.Groups {
		add(ResourceGroups, group)
	}
	for _, set := range objects.Sets {
		add(ResourceSets, set)
	}
	for _, machine := range objects.Machines {
		add(ResourceMachines, machine)
	}
	for _, m := range objects.Maintenances {
		add(ResourceMaintenances, m)
	}
	for _, run := range objects.Runs {
		add(ResourceRuns, run)
	}
	for _, lease := range objects.Leases {
		add(ResourceLeases, lease)
	}
	tracker := NewTracker(ownership.DefaultProtected())
	tracker.Update(t.Context(), events, nil, testTime)
	return tracker
}

func TestCompute_NodeStates(t *testing.T) {
	pool := builder.WithNodeLabels(map[string]string{"pool": "web"})
	failed, failure := machinev1beta1.PhaseFailed, "out of quota"
	failedMachine := builder.Machine("ns", "m", builder.WithNode("n"), func(m *machinev1beta1.Machine) {
		m.Status.Phase, m.Status.ErrorMessage = &failed, &failure
	})
	deleting := builder.Machine("ns", "m", builder.WithNode("n"), func(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: testTime} })
	run := func(phase mutex.NodePhase) *mutex.MutexRunConfig {
		return &mutex.MutexRunConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "run"},
			Status:     mutex.MutexRunConfigStatus{Nodes: []mutex.NodeStatus{{Name: "n", Phase: phase}}},
		}
	}
	nodes := func(options ...func(*corev1.Node)) []*corev1.Node { return []*corev1.Node{readyNode("n", options...)} }
	groups := func(options ...func(*drover.NodeGroup)) []*drover.NodeGroup {
		return []*drover.NodeGroup{group("web", options...)}
	}
	suspended := func(g *drover.NodeGroup) { g.Spec.Suspend = true }
	dryRun := func(g *drover.NodeGroup) { g.Spec.DryRun = true }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	maintained := func(reason string) []*medik8s.NodeMaintenance {
		return []*medik8s.NodeMaintenance{maintenance("n", reason)}
	}
	machines := func(machine *machinev1beta1.Machine) []*machinev1beta1.Machine {
		return []*machinev1beta1.Machine{machine}
	}
	runs := func(phase mutex.NodePhase) []*mutex.MutexRunConfig { return []*mutex.MutexRunConfig{run(phase)} }
	for name, c := range map[string]struct {
		objects Objects
		state   NodeState
		reason  string
	}{
		"nothing declares anything":      {Objects{Nodes: nodes()}, Unmanaged, ""},
		"a label is still to be written": {Objects{Nodes: nodes(pool), Groups: groups()}, RollingOut, "Pending"},
		"the group has stopped":          {Objects{Nodes: nodes(pool), Groups: groups(blocked("NodesNotReady"))}, Blocked, "NodesNotReady"},
		"the group waits for a window":   {Objects{Nodes: nodes(pool), Groups: groups(blocked("WindowClosed"))}, RollingOut, "Pending"},
		"the group is suspended":         {Objects{Nodes: nodes(pool), Groups: groups(suspended)}, Paused, "Held"},
		"the group is a dry run":         {Objects{Nodes: nodes(pool), Groups: groups(dryRun)}, Paused, "DryRun"},
		"not Ready":                      {Objects{Nodes: nodes(builder.WithReady(corev1.ConditionFalse))}, Unhealthy, "NotReady"},
		"cordoned":                       {Objects{Nodes: nodes(cordoned)}, Disrupted, "Cordoned"},
		"in maintenance":                 {Objects{Nodes: nodes(cordoned), Maintenances: maintained("")}, InMaintenance, "InMaintenance"},
		"a drain is blocked":             {Objects{Nodes: nodes(cordoned), Maintenances: maintained("Blocked")}, Blocked, "Blocked"},
		"upgraded":                       {Objects{Nodes: nodes(), Runs: runs(mutex.NodeUpgrading)}, Upgrading, "Upgrading"},
		"upgrade done":                   {Objects{Nodes: nodes(), Runs: runs(mutex.NodeDone)}, Unmanaged, ""},
		"upgrade failed":                 {Objects{Nodes: nodes(), Runs: runs(mutex.NodeFailed)}, Blocked, "NodeFailed"},
		"the Machine has failed":         {Objects{Nodes: nodes(), Machines: machines(failedMachine)}, Unhealthy, "MachineFailed"},
		"the Machine is being deleted":   {Objects{Nodes: nodes(), Machines: machines(deleting)}, RollingOut, "MachineDeleting"},
	} {
		t.Run(name, func(t *testing.T) {
			cells := compute(t, &c.objects).Fleet().Items
			if len(cells) != 1 || cells[0].State != c.state || cells[0].Reason != c.reason {
				t.Errorf("got %+v", cells)
			}
		})
	}
}

func TestCompute_Lease(t *testing.T) {
	lease := builder.NodeLease("medik8s-leases", "n", "node-healthcheck", testTime.Add(-time.Minute))
	objects := &Objects{Nodes: []*corev1.Node{readyNode("n")}}
	objects.Leases = append(objects.Leases, lease)
	if cell := compute(t, objects).Fleet().Items[0]; cell.State != Disrupted || !strings.Contains(cell.Message, "node-healthcheck") {
		t.Errorf("leased: %+v", cell)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: testTime.Add(-2 * time.Hour)}
	if cell := compute(t, objects).Fleet().Items[0]; cell.State != Unmanaged {
		t.Errorf("expired: %+v", cell)
	}
}

// TestCompute_WorstFirst: what needs a person comes before what waits, and the older before the newer.
func TestCompute_WorstFirst(t *testing.T) {
	newer, older := maintenance("a", "Draining"), maintenance("b", "Draining")
	older.Status.Conditions[0].LastTransitionTime = metav1.NewTime(testTime.Add(-time.Hour))
	objects := &Objects{
		Maintenances: []*medik8s.NodeMaintenance{newer, older, maintenance("c", "Paused"), maintenance("d", "Blocked"), maintenance("e", "")},
		Groups:       []*drover.NodeGroup{group("web", blocked("NodesNotReady"))},
	}
	var got []string
	for _, wait := range compute(t, objects).WaitList().Items {
		got = append(got, wait.Name)
	}
	if want := []string{"m-d", "web", "m-b", "m-a", "m-c"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestCompute_OneWaitForOneReason: NodeGroups repeat the reason of a condition in others.
func TestCompute_OneWaitForOneReason(t *testing.T) {
	held := group("web", blocked("NoExecuteHeld"), func(g *drover.NodeGroup) {
		ready := metav1.Condition{Type: drover.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoExecuteHeld"}
		g.Status.Conditions = append(g.Status.Conditions, ready)
	})
	if waits := compute(t, &Objects{Groups: []*drover.NodeGroup{held}}).WaitList().Items; len(waits) != 1 {
		t.Errorf("got %+v", waits)
	}
}

// TestCompute_HostileTexts: what others write is cut and escaped, and stays valid.
func TestCompute_HostileTexts(t *testing.T) {
	const reversed = "\u202e"
	m := maintenance("n", "Draining")
	m.Status.Conditions[0].Message = "<script>alert(1)</script>" + reversed + strings.Repeat("é", 4<<10)
	node := readyNode("n", builder.WithNodeLabels(map[string]string{corev1.LabelTopologyZone: strings.Repeat("z", 63)}))
	node.Status.NodeInfo.KubeletVersion = "\x1b[31m" + strings.Repeat("v", 1<<20)
	state := compute(t, &Objects{Nodes: []*corev1.Node{node}, Maintenances: []*medik8s.NodeMaintenance{m}})
	cell, wait := state.Fleet().Items[0], state.WaitList().Items[0]
	for name, text := range map[string]string{"message": cell.Message, "wait": wait.Message, "version": cell.Version} {
		if len(text) > maxMessage+16 || !utf8.ValidString(text) || strings.ContainsAny(text, reversed+"\x1b") {
			t.Errorf("%s has %d bytes: %.80q", name, len(text), text)
		}
	}
	// It is no markup for a page that writes texts as texts.
	if !strings.HasPrefix(wait.Message, "<script>") {
		t.Errorf("the text is another one: %.40q", wait.Message)
	}
}

func TestCompute_ManyWaits(t *testing.T) {
	objects := &Objects{}
	for i := range maxWaits + 10 {
		objects.Maintenances = append(objects.Maintenances, maintenance(fmt.Sprintf("n-%d", i), "Draining"))
	}
	tracker := compute(t, objects)
	if list := tracker.WaitList(); len(list.Items) != maxWaits || list.Omitted != 10 {
		t.Errorf("%d waits, %d omitted", len(list.Items), list.Omitted)
	}
	// One that needs a person takes the place of one that waits, and the list is complete when there are fewer.
	var events []Event
	for i := range 20 {
		m := maintenance(fmt.Sprintf("n-%d", i), "Blocked")
		events = append(events, Event{Ref{ResourceMaintenances, client.ObjectKeyFromObject(m)}, m})
	}
	tracker.Update(t.Context(), events, nil, testTime)
	if list := tracker.WaitList(); len(list.Items) != maxWaits || list.Items[19].Reason != "Blocked" {
		t.Errorf("%d waits, the twentieth is %+v", len(list.Items), list.Items[19])
	}
	for i := range 20 {
		events[i].Object = nil
	}
	tracker.Update(t.Context(), events, nil, testTime)
	if list := tracker.WaitList(); len(list.Items) != maxWaits-10 || list.Omitted != 0 {
		t.Errorf("%d waits, %d omitted, after there are fewer", len(list.Items), list.Omitted)
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "abc…", "abé": "ab…", "ab\xff\xff": "ab…"} {
		if got := Text(text, 3); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestRules: each rule names a runbook that exists, and reasons that conditions or phases have.
func TestRules(t *testing.T) {
	known := map[string]bool{}
	page, err := os.ReadFile("../../../../docs/conditions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `\\w+` \\| `(\\w+)` \\|").FindAllStringSubmatch(string(page), -1) {
		for kind := range strings.SplitSeq(row[1], ", ") {
			known[kind+"/"+row[2]] = true
		}
	}
	// They are phases, or reasons of this package.
	for _, phase := range []string{
		"NodeMaintenance/Failed", "NodeMaintenance/Running", "NodeMaintenance/NotObserved", "MachineSet/" + reasonConflict, "MachineSet/" + reasonRefused,
		"MachineSet/" + reasonHeld, "MachineSet/" + reasonPending,
	} {
		known[phase] = true
	}
	for _, rule := range rules() {
		if rule.runbook != "" {
			if _, err := os.Stat("../../../../docs/runbooks/" + rule.runbook + ".md"); err != nil {
				t.Error(err)
			}
		}
		for _, reason := range rule.reasons {
			if rule.kind != kindRun && !known[rule.kind+"/"+reason] {
				t.Errorf("no condition of a %s has the reason %s", rule.kind, reason)
			}
		}
	}
}
