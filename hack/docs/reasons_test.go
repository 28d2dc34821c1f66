package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// newPackage returns the folder of a package with constants.
func newPackage(t *testing.T, constants string) string {
	t.Helper()
	root := t.TempDir()
	const imports = "package herd\n\nimport machinev1beta1 \"github.com/openshift/api/machine/v1beta1\"\n\n"
	if err := os.WriteFile(filepath.Join(root, "reasons.go"), []byte(imports+constants), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

func TestEventsOf(t *testing.T) {
	root := newPackage(t, `
// Reasons of events.
const (
	// EventGrew (Normal on Machine, Node): the herd has
	// grown: one more is there.
	EventGrew = "HerdGrew"
	other = 1
)

// EventLost (Warning on Machine): one is lost.
const EventLost = machinev1beta1.InstanceMissingReason
`)
	got, err := eventsOf(root, []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	want := []event{
		{"HerdGrew", "Normal", "Machine, Node", "the herd has grown: one more is there"},
		{"InstanceMissing", "Warning", "Machine", "one is lost"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-) and got (+):\n%s", diff)
	}
}

func TestEventsOf_Errors(t *testing.T) {
	for constants, want := range map[string]string{
		`const EventGrew = "Grew"`:                                                    "reasons.go:5:19: EventGrew: a paragraph of the comment",
		"// EventGrew: it grew.\nconst EventGrew = `G`":                               "reasons.go:6:19: EventGrew: a paragraph of the comment",
		"// EventGrew (Normal on Node): it grew\nconst EventGrew = `G`":               "end with a full stop",
		"// EventHerd (Normal on Node): it grew.\nconst EventGrew = `G`":              `does not begin with "EventGrew (...):"`,
		"// EventGrew (Info on Node): it grew.\nconst EventGrew = `G`":                `reasons.go:6:19: EventGrew: the type "Info" is neither`,
		"// EventGrew (Normal on Sheep): it grew.\nconst EventGrew = `G`":             `no events are on a "Sheep"`,
		"// EventGrew (Normal): it grew.\nconst EventGrew = `G`":                      `no events are on a ""`,
		"// EventGrew (Normal on Node): it grew.\nconst EventGrew = 1 + 1":            "neither a string nor",
		"// EventGrew (Normal on Node): it grew.\nconst EventGrew = machinev1beta1.X": "there is no machinev1beta1.X",
		"const Grew = `G`": "has no constant that begins with Event",
	} {
		if _, err := eventsOf(newPackage(t, constants), []string{"."}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", constants, err, want)
		}
	}
}

func TestConditionsOf(t *testing.T) {
	root := newPackage(t, `
const (
	// ReasonHay (Fed=True): there is hay.
	//
	// ReasonHay (Ready): hay is the problem.
	ReasonHay = "Hay"
	// ReasonSick (Ready): one is sick.
	ReasonSick = "Sick"
	// ReasonAsleep (no condition): a request is denied.
	ReasonAsleep = "Asleep"
	// ReasonGrass (Fed): there is grass.
	ReasonGrass = "Grass"
)
`)
	source := conditionSource{[]string{"."}, []conditionKind{{"Herd, Flock", []string{"Ready"}}, {"Herd", []string{"Fed"}}}}
	got, err := conditionsOf(root, source)
	if err != nil {
		t.Fatal(err)
	}
	want := []condition{
		{"Herd, Flock", "Ready", "Hay", "hay is the problem"},
		{"Herd, Flock", "Ready", "Sick", "one is sick"},
		{"Herd", "Fed", "Hay", "True: there is hay"},
		{"Herd", "Fed", "Grass", "there is grass"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("wanted (-) and got (+):\n%s", diff)
	}
	for comment, want := range map[string]string{
		"// ReasonHay (Happy): there is hay.":     "reasons.go:6:19: ReasonHay: the condition \"Happy\" is unknown",
		"// ReasonHay (Fed=Maybe): there is hay.": "the status \"Maybe\" is unknown",
		"// ReasonHay (Fed): there is hay.":       "no reason in [.] is of the condition Ready of Herd, Flock",
	} {
		root := newPackage(t, comment+"\nconst ReasonHay = \"Hay\"")
		if _, err := conditionsOf(root, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", comment, err, want)
		}
	}
}

// A reason that BlockedReasons lacks would be sorted before all others.
func TestBlockedReasons_AreComplete(t *testing.T) {
	sections, err := readSections(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{plan.ReasonNothing, plan.ReasonRemediating, plan.ReasonTooMany}, plan.BlockedReasons...)
	var got []string
	for _, s := range sections {
		for _, c := range s.Conditions {
			if c.On == "MachineHealthCheck" && c.Type == string(plan.ConditionProgressing) {
				got = append(got, c.Reason)
			}
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the reasons in the code (-) and those of the condition in the comments (+):\n%s", diff)
	}
}
