package stale

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// casesVariable is which cases are run: "all", or some as workload/resource/mode with commas between; empty is a sample.
const casesVariable = "DROVER_STALE"

// Workload is a change of the cluster that the operator carries out.
type Workload struct {
	// Name is part of names of objects.
	Name string
	// Run runs the workload under a disturbance. It returns what is left, in a form that can be compared between runs.
	Run func(t *testing.T, d harness.Disturbance) string
	// Interrupts is whether its user can take back what they have asked for. What is left then is a part of what is left otherwise.
	Interrupts bool
}

// Lane runs workloads with an old view of each kind.
type Lane struct {
	// Package is the argument of go test for the lane.
	Package string
	// Args are how the operator is run to see what kinds it watches.
	Args      []string
	Workloads []Workload
	// Sample is how long a sample takes, before its last case.
	Sample time.Duration
	// Smoke are the cases under go test -short, as workload/resource/mode.
	Smoke []string

	cluster  *cluster.Cluster
	history  *History
	seed     uint64
	only     string
	begun    time.Time
	cases    int
	vacuous  int
	judged   int
	findings []string
	// matched are the paths of only that name a case.
	matched map[string]bool
	// resources are the kinds that changed in the workloads that were run.
	resources map[string]bool
}

// Run runs the lane on a control plane.
func (l *Lane) Run(t *testing.T, c *cluster.Cluster) {
	l.cluster, l.begun, l.only, l.seed = c, time.Now(), os.Getenv(casesVariable), harness.Seed(t)
	smoke := testing.Short() && l.only == ""
	if smoke {
		l.only = strings.Join(l.Smoke, ",")
	}
	// Without a workload there is nothing to follow.
	if slices.ContainsFunc(l.Workloads, func(w Workload) bool { return l.wanted(w.Name, "", "") }) {
		l.follow(t)
	}
	workloads := slices.Clone(l.Workloads)
	if l.sampled() {
		random := l.random("order")
		random.Shuffle(len(workloads), func(i, j int) { workloads[i], workloads[j] = workloads[j], workloads[i] })
	}
	for _, w := range workloads {
		if l.wanted(w.Name, "", "") && !l.spent() {
			t.Run(w.Name, func(t *testing.T) { l.workload(t, w) })
		}
	}
	fmt.Printf("stale lane %s: %d cases, %d of them with nothing to hide, %d requests judged, %d findings, %s (DROVER_TEST_SEED=%d)\n",
		l.Package, l.cases, l.vacuous, l.judged, len(l.findings), time.Since(l.begun).Round(time.Second), l.seed)
	for _, finding := range l.findings {
		fmt.Println("  " + finding)
	}
	for _, text := range l.unmatched() {
		fmt.Println(text)
		if smoke {
			t.Error(text)
		}
	}
}

// follow begins to record all kinds that an operator watches, or the judge looks at.
func (l *Lane) follow(t *testing.T) {
	kinds := map[schema.GroupVersionResource]bool{}
	for _, w := range warrants {
		for _, kind := range w.needs {
			kinds[kind] = true
		}
	}
	t.Run("kinds", func(t *testing.T) {
		run := &Run{t: t, cluster: l.cluster, mode: None}
		operator := harness.Start(t, l.cluster, run.Operator(1, harness.Options{Args: l.Args}))
		if err := operator.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		asked := run.proxies[0].Asked()
		for kind, ways := range asked {
			kinds[kind] = true
			t.Logf("%s: %s", kind.GroupResource(), strings.Join(ways, "; "))
		}
	})
	var err error
	if l.history, err = Follow(t.Context(), l.cluster.Admin(), slices.Collect(maps.Keys(kinds))...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.history.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func (l *Lane) sampled() bool { return l.only == "" }

// spent reports whether a sample has taken its time.
func (l *Lane) spent() bool { return l.sampled() && time.Since(l.begun) > l.Sample }

// wanted reports whether a case is asked for; empty parts stand for any.
func (l *Lane) wanted(parts ...string) bool {
	if l.sampled() || l.only == "all" {
		return true
	}
	return slices.ContainsFunc(strings.Split(l.only, ","), func(path string) bool { return matches(path, parts...) })
}

// matches reports whether a path names a case; empty parts stand for any.
func matches(path string, parts ...string) bool {
	for i, want := range strings.Split(path, "/") {
		if i >= len(parts) || parts[i] != "" && want != "" && want != parts[i] {
			return false
		}
	}
	return true
}

// match records which paths name a case that there is.
func (l *Lane) match(parts ...string) {
	for path := range strings.SplitSeq(l.only, ",") {
		if matches(path, parts...) {
			l.matched[path] = true
		}
	}
}

// unmatched has a line for each path that names no case of this lane, with the names that there are. hack/stale.sh fails when no lane has a case
// for a path: the workloads are in several packages.
func (l *Lane) unmatched() (lines []string) {
	if l.sampled() || l.only == "all" {
		return nil
	}
	var workloads, modes []string
	for _, w := range l.Workloads {
		workloads = append(workloads, w.Name)
	}
	for _, mode := range Modes() {
		modes = append(modes, string(mode))
	}
	for path := range strings.SplitSeq(l.only, ",") {
		if l.matched[path] {
			continue
		}
		line := fmt.Sprintf("stale lane %s: no case is %s; workloads: %s; modes: %s",
			l.Package, path, strings.Join(workloads, ", "), strings.Join(modes, ", "))
		if len(l.resources) > 0 {
			line += "; resources that changed: " + strings.Join(slices.Sorted(maps.Keys(l.resources)), ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

// random makes the randomness of a case of its own, so that it is the same when the case is run alone.
func (l *Lane) random(name string) *rand.Rand {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name))
	return rand.New(rand.NewPCG(l.seed, hash.Sum64())) // #nosec G404 -- picks what to try
}

// workload runs one workload undisturbed, and then under every disturbance of every kind that changes meanwhile.
func (l *Lane) workload(t *testing.T, w Workload) {
	var want string
	var profile *Profile
	t.Run(string(None), func(t *testing.T) {
		run := NewRun(t, l.cluster, l.history, w.Name+"-0", None, schema.GroupResource{}, nil, nil)
		want = w.Run(t, run)
		profile = run.Profile()
		if found, _ := run.Finish(); len(found) > 0 {
			t.Errorf("without any disturbance:\n%s", strings.Join(found, "\n"))
		}
	})
	if profile == nil || len(profile.Writes) == 0 {
		t.Fatal("the undisturbed run wrote nothing")
	}
	t.Logf("undisturbed: %d writes, and what is left is\n%s", len(profile.Writes), want)
	for i, c := range l.choose(w, profile) {
		if l.spent() {
			return
		}
		t.Run(c.kind.Resource+"-"+string(c.mode), func(t *testing.T) { l.one(t, w, c, fmt.Sprintf("%s-%d", w.Name, i+1), profile, want) })
	}
}

// disturbed is one case of a workload.
type disturbed struct {
	kind schema.GroupResource
	mode Mode
}

// choose lists the cases of a workload: all kinds that the operator watches and that change, or some of them.
func (l *Lane) choose(w Workload, profile *Profile) (cases []disturbed) {
	kinds := map[schema.GroupResource]bool{}
	for _, kind := range profile.Kinds {
		_, kinds[kind.GroupResource()] = profile.First[kind.GroupResource()]
	}
	if l.matched == nil {
		l.matched, l.resources = map[string]bool{}, map[string]bool{}
	}
	for kind, changes := range kinds {
		if changes {
			l.resources[kind.Resource] = true
		}
		for _, mode := range Modes() {
			if mode == Interrupt && !w.Interrupts || !l.wanted(w.Name, kind.Resource, string(mode)) {
				continue
			}
			l.match(w.Name, kind.Resource, string(mode))
			switch {
			case changes:
				cases = append(cases, disturbed{kind, mode})
			case !l.sampled():
				l.cases++
				l.vacuous++
			}
		}
	}
	slices.SortFunc(cases, func(a, b disturbed) int {
		return cmp.Or(cmp.Compare(a.kind.String(), b.kind.String()), cmp.Compare(slices.Index(Modes(), a.mode), slices.Index(Modes(), b.mode)))
	})
	if l.sampled() {
		random := l.random(w.Name)
		random.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = cases[:min(2, len(cases))]
	}
	return cases
}

// one runs one case.
func (l *Lane) one(t *testing.T, w Workload, c disturbed, name string, profile *Profile, want string) {
	l.cases++
	path := fmt.Sprintf("%s/%s/%s", w.Name, c.kind.Resource, c.mode)
	run := NewRun(t, l.cluster, l.history, name, c.mode, c.kind, profile, l.random(path))
	t.Cleanup(func() {
		if t.Failed() {
			l.findings = append(l.findings, fmt.Sprintf("%s: %s; alone: %s=%s DROVER_TEST_SEED=%d go test -count=1 -run '^TestStale' %s",
				path, run.Story(), casesVariable, path, l.seed, l.Package))
		}
	})
	got := w.Run(t, run)
	t.Log(run.Story())
	found, judged := run.Finish()
	l.judged += judged
	if run.vacuous {
		l.vacuous++
	}
	for _, finding := range found {
		t.Error(finding)
	}
	if got != want && (c.mode != Interrupt || !strings.Contains(want, got)) {
		t.Errorf("what is left is\n%s\nundisturbed it was\n%s", got, want)
	}
}
