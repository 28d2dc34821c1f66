package main

import (
	"context"
	"errors"
	"flag"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-io/drover/test/cluster"
)

func TestScenarios(t *testing.T) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			flags := flag.NewFlagSet(s.name, flag.ContinueOnError)
			if s.declare(flags) == nil || s.measures == "" || s.rounds < 1 {
				t.Errorf("the scenario is incomplete: %+v", s)
			}
		})
	}
	if err := run(t.Context(), []string{"unknown"}); err == nil || !strings.Contains(err.Error(), "rollouts") {
		t.Errorf("an unknown scenario: %v, want the list of the scenarios", err)
	}
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"sizes":           {[]string{"-sizes", "500,2000"}, ""},
		"no size":         {[]string{"-sizes", ""}, ""},
		"not a number":    {[]string{"-sizes", "500,x"}, "not a number"},
		"negative":        {[]string{"-rounds", "-1"}, "must not be negative"},
		"stray arguments": {[]string{"500"}, "unexpected"},
	} {
		t.Run(name, func(t *testing.T) {
			flags := flag.NewFlagSet(name, flag.ContinueOnError)
			flags.SetOutput(t.Output())
			flags.Int("rounds", 1, "")
			sizesFlag(flags, "sizes", "")
			if err := parse(flags, c.args); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestHalve(t *testing.T) {
	for _, c := range []struct{ all, controlPlane, clients []int }{
		{[]int{3}, nil, nil},
		{[]int{0, 1}, []int{0}, []int{1}},
		{[]int{0, 2, 5}, []int{0}, []int{2}},
		{[]int{0, 1, 2, 3}, []int{0, 1}, []int{2, 3}},
	} {
		if p := halve(c.all); !slices.Equal(p.controlPlane, c.controlPlane) || !slices.Equal(p.clients, c.clients) {
			t.Errorf("%v: %+v", c.all, p)
		}
	}
}

func TestPinProcess(t *testing.T) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	last := list(&allowed)[allowed.Count()-1:]
	process := exec.CommandContext(t.Context(), "sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	if err := pinProcess(process.Process.Pid, last); err != nil {
		t.Fatal(err)
	}
	var now unix.CPUSet
	if err := unix.SchedGetaffinity(process.Process.Pid, &now); err != nil || !slices.Equal(list(&now), last) {
		t.Errorf("the process runs on %v, want %v: %v", list(&now), last, err)
	}
}

func TestQuiet(t *testing.T) {
	process := exec.CommandContext(t.Context(), "sleep", "60")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	if err := quiet(t.Context(), process.Process.Pid); err != nil {
		t.Errorf("a process that sleeps is not quiet: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := quiet(ended, process.Process.Pid); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	_ = process.Process.Kill()
	_ = process.Wait()
	if err := quiet(t.Context(), process.Process.Pid); err == nil {
		t.Error("a process that has ended is quiet")
	}
}

func TestPoolsOf(t *testing.T) {
	for machines, want := range map[int][]pool{
		1:      {{"bench-part", 1}},
		5000:   {{"bench-part", 50}, {"bench1", 4950}},
		100000: {{"bench-part", 1000}, {"bench1", largestPool}, {"bench2", 49000}},
	} {
		if got := poolsOf(machines); !slices.Equal(got, want) {
			t.Errorf("%d Machines: %v, want %v", machines, got, want)
		}
	}
}

func TestReport(t *testing.T) {
	r := &report{}
	for i, size := range []string{"500", "2000"} {
		c := r.column("Machines", size)
		c.add("share", 0.8+float64(i)/10, ratio, atLeast(0.85))
		c.add("writes", 1, perObject, exactly(1))
		c.add("memory", 100, inMiB, atMost(0))
	}
	r.column("Machines", "2000").add("at rest", 0.004, inCores)
	const want = `
  Machines      500         2000
     share     0.80         0.90
    writes    1.000        1.000
    memory  100 MiB      100 MiB
   at rest        -  0.004 cores

Aims:
  MISSED   Machines, 500: share: 0.80, at least 0.85
  reached  Machines, 500: writes: 1.000, exactly 1.000
  reached  Machines, 2000: share: 0.90, at least 0.85
  reached  Machines, 2000: writes: 1.000, exactly 1.000
`
	if got := r.String(); got != want {
		t.Errorf("the report is\n%s\nwant\n%s", got, want)
	}
}

func TestRequests(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	all := requests{
		{Verb: "create", Resource: "machines", Code: 201, Answered: at(1)},
		{Verb: "create", Resource: "machines", Code: 201, Answered: at(2)},
		{Verb: "get", Resource: "nodes", Code: 404, Answered: at(3)},
		{Verb: "delete", Resource: "machines", Code: 200, Answered: at(4)},
		{Verb: "patch", Resource: "machines", Subresource: "status", Code: 409, Answered: at(5)},
	}
	if got := len(all.writes()); got != 4 {
		t.Errorf("%d writes, want 4", got)
	}
	if got := kindOf(&cluster.AuditEvent{Verb: "patch", Resource: "machines", Subresource: "status"}); got != "patch machines/status" {
		t.Errorf("the kind is %q", got)
	}
	if got := all.kinds(2); got["create machines"] != 1 || got["patch machines/status (409)"] != 0.5 {
		t.Errorf("the kinds are %v", got)
	}
	if got := all.of("create machines"); got.perSecond() != 1 || !got.first().Equal(at(1)) || !got.last().Equal(at(2)) {
		t.Errorf("the creations are %v", got)
	}
	if got := mostAdded(all); got != 2 {
		t.Errorf("%d Machines more, want 2", got)
	}
}

// TestVariants_Apply: the sources have the texts that the variants of the benchmark platform replace.
func TestVariants_Apply(t *testing.T) {
	t.Chdir(filepath.Join("..", ".."))
	for _, v := range variants() {
		if _, err := v.apply(t.TempDir()); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
	}
}
