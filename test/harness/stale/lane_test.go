package stale

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestLane_Wanted(t *testing.T) {
	for _, test := range []struct {
		only  string
		parts []string
		want  bool
	}{
		{"", []string{"machines", "nodes", "late"}, true},
		{"all", []string{"machines", "nodes", "late"}, true},
		{"machines", []string{"machines", "nodes", "late"}, true},
		{"machines", []string{"replicas", "nodes", "late"}, false},
		{"machines/nodes", []string{"machines", "", ""}, true},
		{"machines/nodes", []string{"machines", "pods", "late"}, false},
		{"machines//late", []string{"machines", "pods", "late"}, true},
		{"machines//late", []string{"machines", "pods", "write"}, false},
		{"machines,replicas/nodes", []string{"replicas", "nodes", "write"}, true},
		{"machines,replicas/nodes", []string{"replicas", "pods", "write"}, false},
	} {
		l := &Lane{only: test.only}
		if got := l.wanted(test.parts...); got != test.want {
			t.Errorf("%q wants %v: %t, want %t", test.only, test.parts, got, test.want)
		}
	}
}

func TestLane_ChooseTakesWhatChanges(t *testing.T) {
	changing, still := nodes, pods
	profile := &Profile{
		Kinds: []schema.GroupVersionResource{changing, still}, First: map[schema.GroupResource]int{changing.GroupResource(): 3},
		Writes: []Write{{RequestInfo: &apirequest.RequestInfo{Resource: "nodes"}, At: time.Now()}},
	}
	l := &Lane{only: "all"}
	cases := l.choose(Workload{Name: "w"}, profile)
	if want := len(Modes()) - 1; len(cases) != want || l.vacuous != want || l.cases != want {
		t.Errorf("%d cases, and %d of %d have nothing to hide; want %d each: Interrupt needs a user who takes back", len(cases), l.vacuous, l.cases, want)
	}
	l.only = "w/nodes/interrupt"
	if cases = l.choose(Workload{Name: "w", Interrupts: true}, profile); len(cases) != 1 || cases[0].mode != Interrupt {
		t.Errorf("alone: %v", cases)
	}
	first, second := &Lane{seed: 7}, &Lane{seed: 7, only: "w/nodes/late"}
	if a, b := first.random("w/nodes/late").Uint64(), second.random("w/nodes/late").Uint64(); a != b {
		t.Errorf("a case alone has another randomness: %s", fmt.Sprint(a, b))
	}
}

func TestLane_UnmatchedNamesWhatThereIs(t *testing.T) {
	profile := &Profile{Kinds: []schema.GroupVersionResource{nodes}, First: map[schema.GroupResource]int{nodes.GroupResource(): 3}}
	for only, want := range map[string]string{
		"": "", "all": "", "w": "", "w/nodes": "", "w/nodes/late": "", "w//late": "",
		"x":                "no case is x; workloads: w; modes: ",
		"w/node":           "no case is w/node; workloads: w; modes: ",
		"w/nodes/never":    "resources that changed: nodes",
		"w/nodes/late/now": "no case is w/nodes/late/now;",
		"w,y":              "no case is y;",
		// Only a workload that says so has a user who takes back.
		"w/nodes/interrupt": "no case is w/nodes/interrupt;",
	} {
		l := &Lane{Package: "./test/p", Workloads: []Workload{{Name: "w"}}, only: only}
		l.choose(l.Workloads[0], profile)
		got := strings.Join(l.unmatched(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%q: %q, want it to say %q", only, got, want)
		}
	}
	l := &Lane{Package: "./test/p", Workloads: []Workload{{Name: "w"}}, only: "x"}
	if got := l.unmatched(); len(got) != 1 || !strings.HasPrefix(got[0], "stale lane ./test/p: no case is x; workloads: w;") {
		t.Errorf("before any workload was run: %q", got)
	}
}

// TestScript_FailsForNamesOfNoCase runs hack/stale.sh with a go that prints what the lanes would.
func TestScript_FailsForNamesOfNoCase(t *testing.T) {
	const ran, not = "stale lane %s: %d cases, 0 of them with nothing to hide, 9 requests judged, 0 findings, 1s (DROVER_TEST_SEED=1)",
		"stale lane %s: no case is %s; workloads: %s; modes: late"
	for name, test := range map[string]struct {
		lines []string
		fails bool
		says  string
	}{
		"a case of one package": {lines: []string{
			fmt.Sprintf(ran, "./a", 0), fmt.Sprintf(not, "./a", "w", "v"), fmt.Sprintf(ran, "./b", 2),
		}, says: "stale lane: 2 cases, 0 findings"},
		"a case of no package": {lines: []string{
			fmt.Sprintf(ran, "./a", 0), fmt.Sprintf(not, "./a", "x", "v"), fmt.Sprintf(ran, "./b", 0), fmt.Sprintf(not, "./b", "x", "w"),
		}, fails: true, says: "workloads: w; modes: late"},
		"one of two is of no package": {lines: []string{
			fmt.Sprintf(ran, "./a", 3), fmt.Sprintf(not, "./a", "x", "v"), fmt.Sprintf(ran, "./b", 0), fmt.Sprintf(not, "./b", "x", "w"),
			fmt.Sprintf(not, "./b", "v", "w"),
		}, fails: true, says: "stale: x names no case"},
		"no case at all": {lines: []string{fmt.Sprintf(ran, "./a", 0), fmt.Sprintf(ran, "./b", 0)}, fails: true, says: "no case was run"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			script, err := os.ReadFile("../../../hack/stale.sh")
			if err != nil {
				t.Fatal(err)
			}
			fake := "#!/usr/bin/env bash\ncat <<'TEXT'\n" + strings.Join(test.lines, "\n") + "\nTEXT\n"
			for path, text := range map[string]string{"hack/stale.sh": string(script), "bin/go": fake} {
				path = filepath.Join(folder, path)
				if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
					t.Fatal(err)
				}
			}
			command := exec.CommandContext(t.Context(), filepath.Join(folder, "hack/stale.sh"), "x")
			command.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"))
			output, err := command.CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(output), test.says) {
				t.Errorf("%v, want an error: %t, and %q in\n%s", err, test.fails, test.says, output)
			}
		})
	}
}

func TestView_StandbyIsTimedFromItsLead(t *testing.T) {
	v := &view{quiet: time.Second, bound: 5 * time.Second, standby: true}
	v.freeze()
	if v.due(time.Now().Add(time.Hour)) {
		t.Error("it is released before the replica leads")
	}
	v.begin()
	if !v.due(time.Now().Add(time.Second)) {
		t.Error("it is not released after the replica leads and is quiet")
	}
	v.release()
	if v.hidden(time.Now()).IsZero() || !v.hidden(time.Now().Add(grace)).IsZero() {
		t.Error("what was held back is known at once, or never")
	}
	v.freeze()
	if !v.frozen().IsZero() {
		t.Error("it freezes a second time")
	}
}
