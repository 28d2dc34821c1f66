package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// now is the time of the decisions.
var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// newInput returns a group that replaces its Machines, with MachineSets.
func newInput(sets ...Set) *Input {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}}
	group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	return &Input{Group: group, Sets: sets, Creates: true, Now: now}
}

// newSet returns a MachineSet that wants as many Machines as are not being deleted, except for those beyond replicas that options add.
func newSet(replicas int, machines ...Machine) Set {
	return Set{Name: "set", Replicas: replicas, Machines: machines}
}

// newOld returns an outdated Machine that has worked for an hour, newNew one of the current template.
func newOld(name string, options ...func(*Machine)) Machine {
	m := Machine{
		Name: name, UID: types.UID(name), Zone: "a", Created: now.Add(-time.Hour), Outdated: true, Ready: true, Synced: true,
		ReadyChange: now.Add(-time.Hour),
	}
	for _, option := range options {
		option(&m)
	}
	return m
}

func newNew(name string, options ...func(*Machine)) Machine {
	return newOld(name, append([]func(*Machine){func(m *Machine) { m.Outdated = false }}, options...)...)
}

// Options of Machines.
func replacing(m *Machine) { m.Replacing = true }
func deleting(m *Machine)  { m.Deleting = true }
func marked(m *Machine)    { m.Marked = true }
func failed(m *Machine)    { m.Failed, m.Ready = true, false }
func skipped(m *Machine)   { m.Skipped = true }
func notReady(m *Machine)  { m.Ready = false }
func unsynced(m *Machine)  { m.Synced = false }

// serving is Ready, whatever its provider has reported.
func serving(m *Machine) { m.Ready, m.HasNode = true, true }

// booting has no Node yet.
func booting(m *Machine) {
	m.Ready, m.Synced, m.Created, m.ReadyChange = false, false, now.Add(-time.Minute), time.Time{}
}

func inZone(zone string) func(*Machine) { return func(m *Machine) { m.Zone = zone } }

func aged(age time.Duration) func(*Machine) {
	return func(m *Machine) { m.Created, m.ReadyChange = now.Add(-age), now.Add(-age) }
}

// brief is a decision in a line.
func brief(d *Decision) string {
	var parts []string
	for _, part := range []struct {
		name string
		uids []types.UID
	}{{"mark", d.MarkReplacing}, {"unmark", d.Unmark}, {"replace", d.Replace}} {
		if len(part.uids) > 0 {
			names := make([]string, len(part.uids))
			for i := range part.uids {
				names[i] = string(part.uids[i])
			}
			parts = append(parts, part.name+" "+strings.Join(names, " "))
		}
	}
	if d.Report.Reason != "" {
		parts = append(parts, d.Report.Reason)
	}
	if !d.Wake.IsZero() {
		parts = append(parts, "wake in "+d.Wake.Sub(now).String())
	}
	return strings.Join(parts, ", ")
}

// settings changes the settings of a group.
func settings(surge, inFlight string, change func(*v1alpha1.Replacement)) func(*Input) {
	return func(in *Input) {
		r := in.Group.Spec.Replacement
		r.MaxSurge, r.MaxInFlight = new(intstr.Parse(surge)), new(intstr.Parse(inFlight))
		if change != nil {
			change(r)
		}
	}
}

type decideCase struct {
	sets   []Set
	change func(*Input)
	want   string
}

func (c *decideCase) run(t *testing.T) {
	t.Helper()
	in := newInput(c.sets...)
	if c.change != nil {
		c.change(in)
	}
	before := fmt.Sprintf("%+v", in.Sets)
	d := Decide(in)
	if got := brief(&d); got != c.want {
		t.Errorf("got  %s\nwant %s\n%+v", got, c.want, d.Report)
	}
	if after := fmt.Sprintf("%+v", in.Sets); after != before {
		t.Errorf("the input has changed:\n%s\n%s", before, after)
	}
}

func one3(third Machine) []Set { return []Set{newSet(3, newOld("a"), newOld("b"), third)} }

func TestDecide_Surge(t *testing.T) {
	for name, c := range map[string]decideCase{
		"nothing is outdated":           {[]Set{newSet(2, newNew("a"), newNew("b"))}, nil, ""},
		"the oldest is marked":          {one3(newOld("c", aged(2*time.Hour))), nil, "mark c"},
		"by zone before age":            {one3(newOld("c", aged(2*time.Hour), inZone("b"))), nil, "mark a"},
		"without a Ready Node first":    {one3(newOld("c", notReady, inZone("b"))), nil, "mark c"},
		"failed before that":            {[]Set{newSet(3, newOld("a", notReady), newOld("b", failed), newOld("c"))}, nil, "mark b"},
		"marked for deletion before it": {[]Set{newSet(3, newOld("a", notReady), newOld("b", marked), newOld("c"))}, nil, "mark b"},
		"the new one is to be created":  {[]Set{newSet(2, newOld("a", replacing), newOld("b"))}, nil, ""},
		"the new one boots": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n", booting))}, nil, "wake in 29m0s",
		},
		"the new one has been Ready since a time that lies ahead": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n", aged(-24*time.Hour)))},
			settings("1", "1", func(r *v1alpha1.Replacement) { r.MinReadySeconds = 90 }), "mark b, replace a",
		},
		"the new one is available": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n"))}, nil, "mark b, replace a",
		},
		"the new one has not been Ready for long enough": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n", aged(time.Minute)))},
			settings("1", "1", func(r *v1alpha1.Replacement) { r.MinReadySeconds = 90 }), "wake in 30s",
		},
		"the new one lacks its metadata": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n", unsynced, aged(time.Minute)))}, nil, "wake in 29m0s",
		},
		"one is being deleted: the next is marked": {
			[]Set{newSet(2, newOld("a", deleting), newOld("b"), newNew("n"))}, nil, "mark b",
		},
		"one is being deleted: the next waits": {
			[]Set{newSet(2, newOld("a", deleting), newOld("b", replacing), newNew("n"), newNew("o"))}, nil, "",
		},
		"two at once": {
			[]Set{newSet(2, newOld("a", deleting), newOld("b", replacing), newNew("n"), newNew("o"))}, settings("1", "2", nil), "replace b",
		},
		"a surge of two": {
			[]Set{newSet(3, newOld("a"), newOld("b"), newOld("c"))}, settings("2", "1", nil), "mark a b",
		},
		"a surge of two, one is available": {
			[]Set{newSet(3, newOld("a", replacing), newOld("b", replacing), newOld("c"), newNew("n"), newNew("o", booting))}, settings("2", "2", nil),
			"mark c, replace a, wake in 29m0s",
		},
		"percentages are of all MachineSets, rounded up": {
			[]Set{newSet(3, newOld("a"), newOld("b"), newOld("c")), newSet(2, newOld("d", inZone("b")), newOld("e", inZone("b")))},
			settings("70%", "1", nil), "mark a b c d",
		},
		"a mark stays where it is": {
			[]Set{newSet(1, newOld("a")), newSet(1, newOld("b", replacing, inZone("b")))}, nil, "",
		},
		"more marks than maxSurge": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b", replacing), newNew("n"), newNew("o"))}, nil, "unmark b",
		},
		"the last one goes": {[]Set{newSet(2, newOld("a", replacing), newNew("n"), newNew("o"))}, nil, "replace a"},
		"no Ready Node, and Machines of the template work: it need not wait for another new one": {
			[]Set{newSet(3, newOld("a"), newOld("b", notReady), newNew("n"))}, nil, "mark a, replace b",
		},
		"a new Machine is not Ready any more": {
			[]Set{newSet(3, newOld("a", replacing), newOld("b"), newNew("n"), newNew("o", notReady, aged(time.Minute)))}, nil, "wake in 29m0s",
		},
	} {
		t.Run(name, c.run)
	}
}

// TestDecide_EarlierTemplate: the template has changed again, so that Machines of an earlier one have the places of new ones.
func TestDecide_EarlierTemplate(t *testing.T) {
	b := inZone("b")
	earlier := newSet(2, newOld("k", replacing, b), newOld("l", b), newOld("m", b))
	two := settings("2", "2", nil)
	for name, c := range map[string]decideCase{
		"the first goes": {[]Set{earlier}, nil, "mark l, replace k"},
		"another MachineSet creates one": {
			[]Set{newSet(1, newOld("x", replacing)), earlier}, two, "",
		},
		"the new one of another MachineSet boots": {
			[]Set{newSet(1, newOld("x", replacing), newNew("n", booting)), earlier}, two, "wake in 29m0s",
		},
		"another MachineSet gives a place back": {
			[]Set{newSet(2, newOld("x", replacing), newOld("y"), newNew("n")), earlier}, two, "mark y, replace x",
		},
		"a place is left": {[]Set{earlier}, two, "mark l"},
		"a paused MachineSet keeps its place": {
			[]Set{{Name: "p", Replicas: 1, Paused: true, Machines: []Machine{newOld("x", replacing)}}, earlier}, two, "mark l, replace k",
		},
		"the MachineSet that has lost one comes first": {
			[]Set{newSet(1, newOld("x")), newSet(2, newOld("k", deleting, b), newOld("l", b), newOld("m", b))}, nil, "mark l",
		},
	} {
		t.Run(name, c.run)
	}
}

func TestDecide_DeleteFirst(t *testing.T) {
	none := settings("0", "2", nil)
	for name, c := range map[string]decideCase{
		"the first goes alone":     {[]Set{newSet(3, newOld("a"), newOld("b"), newOld("c"))}, none, "replace a"},
		"one of each MachineSet":   {[]Set{newSet(1, newOld("a")), newSet(1, newOld("b")), newSet(1, newOld("c"))}, none, "replace a b"},
		"the new one is missing":   {[]Set{newSet(3, newOld("a"), newOld("b"))}, none, ""},
		"the new one boots":        {[]Set{newSet(3, newOld("a"), newOld("b"), newNew("n", booting))}, none, "wake in 29m0s"},
		"the new one is available": {[]Set{newSet(3, newOld("a"), newOld("b"), newNew("n"))}, none, "replace a b"},
		"one is in flight":         {[]Set{newSet(4, newOld("a"), newOld("b"), newNew("n"), newNew("o", booting))}, none, "replace a, wake in 29m0s"},
		"two are": {
			[]Set{newSet(4, newOld("a", deleting), newOld("b"), newOld("c"), newNew("n"), newNew("o", booting))}, none, "replace b, wake in 29m0s",
		},
		"one is being deleted": {[]Set{newSet(3, newOld("a", deleting), newOld("b"), newOld("c"))}, none, ""},
		"marks are removed":    {[]Set{newSet(3, newOld("a", replacing), newOld("b"), newNew("n"))}, none, "unmark a, replace a b"},
	} {
		t.Run(name, c.run)
	}
}

// TestDecide_Others: machine-api-operator knows nothing of surge.
func TestDecide_Others(t *testing.T) {
	others := func(in *Input) { in.Creates, in.Others = false, true }
	for name, c := range map[string]decideCase{
		"the first goes alone": {[]Set{newSet(2, newOld("a"), newOld("b"))}, others, "replace a, " + ReasonSurgeUnavailable},
		"the new one boots": {
			[]Set{newSet(2, newOld("b"), newNew("n", booting))}, others, ReasonSurgeUnavailable + ", wake in 29m0s",
		},
		"a mark is removed":   {[]Set{newSet(2, newOld("a", replacing), newNew("n"))}, others, "unmark a, replace a, " + ReasonSurgeUnavailable},
		"a new Machine fails": {[]Set{newSet(2, newOld("b"), newNew("n", failed))}, others, ReasonNewMachineFailed},
		"no surge is asked for": {[]Set{newSet(1, newOld("a"))}, func(in *Input) {
			others(in)
			settings("0", "1", nil)(in)
		}, "replace a"},
	} {
		t.Run(name, c.run)
	}
}

func TestDecide_NewMachineFails(t *testing.T) {
	resumed := func(ago time.Duration) func(*Input) {
		return func(in *Input) {
			in.Group.Annotations = map[string]string{v1alpha1.AnnotationResume: now.Add(-ago).Format(time.RFC3339)}
		}
	}
	surge := func(options ...func(*Machine)) []Set {
		return []Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n", options...))}
	}
	for name, c := range map[string]decideCase{
		"failed":                        {surge(booting, failed), nil, ReasonNewMachineFailed},
		"late":                          {surge(booting, aged(30*time.Minute)), nil, ReasonNewMachineFailed},
		"almost late":                   {surge(booting, func(m *Machine) { m.Created = now.Add(-29 * time.Minute) }), nil, "wake in 1m0s"},
		"NotReady for too long":         {surge(notReady), nil, ReasonNewMachineFailed},
		"without metadata for too long": {surge(unsynced), nil, ReasonNewMachineFailed},
		"a deadline of its own": {
			surge(booting), settings("1", "1", func(r *v1alpha1.Replacement) { r.ProgressDeadline = &metav1.Duration{Duration: time.Minute} }),
			ReasonNewMachineFailed,
		},
		"NotReady since a time that lies ahead": {
			surge(notReady, func(m *Machine) { m.ReadyChange = now.Add(24 * time.Hour) }), nil, ReasonNewMachineFailed,
		},
		"failed, and a user skips it":                   {surge(booting, failed, skipped), nil, "mark b, replace a"},
		"failed, and resumed before":                    {surge(booting, failed), resumed(time.Hour), ReasonNewMachineFailed},
		"failed, and resumed: it goes":                  {surge(booting, failed), resumed(0), "replace n"},
		"the only one has failed, and resumed: it goes": {[]Set{newSet(1, newNew("n", booting, failed))}, resumed(0), "replace n"},
		"failed although they are Ready, and resumed: one after another": {
			[]Set{newSet(3, newOld("a"), newNew("m", failed, serving), newNew("n", failed, serving))}, func(in *Input) {
				settings("0", "3", nil)(in)
				resumed(0)(in)
			}, "replace m",
		},
		"failed, and resumed later": {surge(booting, failed), resumed(-time.Hour), ReasonNewMachineFailed + ", wake in 1h0m0s"},
		"has served, and fails long after a user resumed": {
			[]Set{newSet(1, newNew("a"), newNew("n", failed, func(m *Machine) { m.HasNode = true }))}, resumed(0), "",
		},
		"late, and resumed: it may try": {surge(booting, aged(time.Hour)), resumed(10 * time.Minute), "wake in 20m0s"},
		"the template has changed: the failed one goes first": {
			[]Set{newSet(2, newOld("a", replacing), newOld("b"), newOld("n", failed))}, nil, "replace n",
		},
		"a MachineSet that is paused": {[]Set{{Name: "set", Replicas: 1, Paused: true, Machines: []Machine{newOld("a"), newNew("n", failed)}}}, nil, ""},
	} {
		t.Run(name, c.run)
	}
}

func TestDecide_Held(t *testing.T) {
	ready := []Set{newSet(2, newOld("a", replacing), newOld("b"), newNew("n"))}
	closed := disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "closed", Changes: now.Add(time.Hour)}
	for name, c := range map[string]decideCase{
		"suspended": {ready, func(in *Input) { in.Group.Spec.Suspend = true }, ""},
		"paused":    {ready, func(in *Input) { in.Group.Annotations = map[string]string{"cluster.x-k8s.io/paused": ""} }, ReasonPaused},
		"dry run":   {ready, func(in *Input) { in.Group.Spec.DryRun = true }, ""},
		"the roll-out of metadata has stopped": {ready, func(in *Input) {
			in.Group.Status.Rollout = &v1alpha1.RolloutStatus{Stopped: "2 Nodes", StopReason: "NodesNotReady"}
		}, "NodesNotReady"},
		"window closed": {ready, func(in *Input) { in.Window = closed }, "WindowClosed, wake in 1h0m0s"},
		"window closed, exempt": {ready, func(in *Input) {
			in.Window = closed
			in.Group.Spec.Disruption = &v1alpha1.Disruption{Exempt: []v1alpha1.Capability{v1alpha1.CapabilityReplacement}}
		}, "mark b, replace a"},
		"not known who creates": {ready, func(in *Input) { in.Creates = false }, ReasonSurgeUnavailable},
		"None":                  {ready, func(in *Input) { in.Group.Spec.Replacement.Type = v1alpha1.ReplacementNone }, "unmark a"},
		"no spec.replacement":   {ready, func(in *Input) { in.Group.Spec.Replacement = nil }, "unmark a"},
		"the group is deleted":  {ready, func(in *Input) { in.Group.DeletionTimestamp = &metav1.Time{Time: now} }, "unmark a"},
		"a paused MachineSet":   {[]Set{{Name: "set", Replicas: 2, Paused: true, Machines: ready[0].Machines}}, nil, ""},
		"a paused MachineSet and another one": {
			[]Set{{Name: "p", Replicas: 2, Paused: true, Machines: []Machine{newOld("a")}}, newSet(1, newOld("b", inZone("b")))}, nil, "mark b",
		},
		"skipped":                {[]Set{newSet(2, newOld("a", skipped), newOld("b"))}, nil, "mark b"},
		"all are skipped":        {[]Set{newSet(2, newOld("a", skipped), newNew("b"))}, nil, ""},
		"skipped when marked":    {[]Set{newSet(2, newOld("a", skipped, replacing), newOld("b"), newNew("n"))}, nil, "unmark a"},
		"skipped, the others go": {[]Set{newSet(2, newOld("a", skipped), newOld("b", replacing), newNew("n"))}, nil, "replace b"},
		"its deletion is denied: others go": {
			[]Set{newSet(2, newOld("a", replacing, func(m *Machine) { m.Denied = true }), newOld("b"), newNew("n"))}, nil, "replace b",
		},
		"another holder works on its Node: others go first": {
			[]Set{newSet(2, newOld("a", replacing, func(m *Machine) { m.Leased = true }), newOld("b"), newNew("n"))}, nil, "replace b",
		},
		"another holder works on its Node, and it is the last": {
			[]Set{newSet(1, newOld("a", replacing, func(m *Machine) { m.Leased = true }), newNew("n"))}, nil, "replace a",
		},
		"the template is undone": {[]Set{newSet(2, newNew("a", replacing), newNew("b"), newOld("n", failed))}, nil, "unmark a"},
		"it is scaled down":      {[]Set{newSet(1, newOld("a"), newOld("b"), newOld("c"))}, nil, ""},
		"it is scaled up":        {[]Set{newSet(5, newOld("a", replacing), newOld("b"), newNew("n"))}, nil, ""},
	} {
		t.Run(name, c.run)
	}
}

func TestDecide_Report(t *testing.T) {
	d := Decide(newInput(newSet(5, newOld("a", deleting), newOld("b", skipped), newOld("c"), newOld("d"), newNew("n"), newNew("o", booting))))
	const want = "4 Machines are outdated; being deleted: a; not available yet: o; to be created: 1"
	if got := d.Report; got.Outdated != 4 || !got.Replacing || got.Progress != want || got.Stopped() {
		t.Errorf("%+v", got)
	}
	d = Decide(newInput(newSet(2, newOld("a", replacing), newOld("b"), newNew("n", booting, func(m *Machine) { m.Failed = true }))))
	const failed = "Machine n, which MachineSet set created from its current template, has failed"
	if got := d.Report; !got.Stopped() || !strings.Contains(got.Message, failed) {
		t.Errorf("%+v", got)
	}
	if got := Unavailable(newInput().Group); got.Reason != ReasonSurgeUnavailable || got.Replacing || got.Outdated != 0 {
		t.Errorf("%+v", got)
	}
	if got := Unavailable(&v1alpha1.NodeGroup{}); got != (Report{}) {
		t.Errorf("%+v", got)
	}
	d = Decide(newInput(newSet(1, newOld("a", skipped))))
	if got := d.Report; got != (Report{Outdated: 1}) {
		t.Errorf("%+v", got)
	}
}
