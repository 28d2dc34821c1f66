package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

func TestLabelKey(t *testing.T) {
	for _, c := range []struct {
		name, namespace string
		good            bool
	}{
		{"drain-db", "numo", true},
		{strings.Repeat("a", 58), "numo", true},
		{strings.Repeat("a", 59), "numo", false},
		{"drain-db", "", false},
	} {
		key, err := LabelKey(types.NamespacedName{Namespace: c.namespace, Name: c.name})
		if (err == nil) != c.good || c.good && key != LabelPrefix+c.name+"."+c.namespace {
			t.Errorf("%s.%s: %q, %v", c.name, c.namespace, key, err)
		}
	}
}

// All that a Job is for is in its name, and nothing else.
func TestJobName(t *testing.T) {
	id := JobID{Run: "run", Version: "4.17.3", Node: "node", Rule: types.NamespacedName{Namespace: "numo", Name: "db"}, Kind: BeforeUpgrade}
	seen := map[string]bool{}
	for _, change := range []func(*JobID){
		func(*JobID) {}, func(i *JobID) { i.Run = "other" }, func(i *JobID) { i.Version = "4.17.4" }, func(i *JobID) { i.Node = "other" },
		func(i *JobID) { i.Rule.Name = "dc" }, func(i *JobID) { i.Rule.Namespace = "other" }, func(i *JobID) { i.Kind = AfterUpgrade },
		func(i *JobID) { i.Attempt = 1 },
	} {
		other := id
		change(&other)
		name := JobName("check", other)
		if seen[name] || name != JobName("check", other) || !strings.HasPrefix(name, "check-") {
			t.Errorf("%+v: %s", other, name)
		}
		seen[name] = true
	}
	for _, prefix := range []string{strings.Repeat("x", 253), strings.Repeat("y-", 40), "a.b"} {
		name := JobName(prefix, id)
		if faults := validation.IsDNS1123Subdomain(name); len(faults) > 0 || len(name) > validation.LabelValueMaxLength {
			t.Errorf("%s: %v", name, faults)
		}
	}
}

func TestReadJobSpec(t *testing.T) {
	for text, good := range map[string]bool{
		`{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}`: true,
		`{"template":{"spec":{"container":[]}}}`:                                                  false,
		`{}{}`:                                                                                    false,
		`[]`:                                                                                      false,
		``:                                                                                        false,
	} {
		if _, err := ReadJobSpec(&runtime.RawExtension{Raw: []byte(text)}); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ReadJobSpec(nil); err == nil {
		t.Error("no spec is taken")
	}
}

func rule(spec string) *v1alpha1.MutexRule {
	return &v1alpha1.MutexRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "db"},
		Spec:       v1alpha1.MutexRuleSpec{JobName: "check", JobNamespace: "jobs", JobSpec: runtime.RawExtension{Raw: []byte(spec)}},
	}
}

// What is declared stays, and what the incumbent replaced is added to.
func TestJob(t *testing.T) {
	r := rule(`{"ttlSecondsAfterFinished":5,"template":{"spec":{"restartPolicy":"Never",
		"initContainers":[{"name":"i","image":"i","env":[{"name":"NODE_NAME","value":"mine"}]}],
		"containers":[{"name":"a","image":"i"},{"name":"b","image":"i","env":[{"name":"X","value":"1"}]}],
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
			{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
			{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]},{}]}}}}}}`)
	declared, err := ReadJobSpec(&r.Spec.JobSpec)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{corev1.LabelHostname: "host1"}}}
	id := JobID{Run: "run", Version: "4.17.3", Node: node.UID, Rule: types.NamespacedName{Namespace: "numo", Name: "db"}, Kind: BeforeUpgrade}
	job := Job(r, declared, node, id)
	if job.Namespace != "jobs" || job.Name != JobName("check", id) || job.Spec.TTLSecondsAfterFinished != nil ||
		*declared.TTLSecondsAfterFinished != 5 {
		t.Errorf("%+v", job)
	}
	env := func(c corev1.Container) string {
		var all []string
		for _, e := range c.Env {
			all = append(all, e.Name+"="+e.Value)
		}
		return strings.Join(all, " ")
	}
	pod := job.Spec.Template.Spec
	got := []string{env(pod.InitContainers[0]), env(pod.Containers[0]), env(pod.Containers[1])}
	if diff := cmp.Diff([]string{"NODE_NAME=mine MUTEX_RULE=db", "MUTEX_RULE=db NODE_NAME=n1", "X=1 MUTEX_RULE=db NODE_NAME=n1"}, got); diff != "" {
		t.Error(diff)
	}
	terms := pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	off := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{"host1"}}
	if len(terms) != 3 || len(terms[0].MatchExpressions) != 2 || !cmp.Equal(terms[0].MatchExpressions[1], off) ||
		!cmp.Equal(terms[1].MatchExpressions[0], off) || len(terms[2].MatchExpressions) != 0 {
		t.Errorf("terms %+v", terms)
	}
	bare := declared.DeepCopy()
	bare.Template.Spec.Affinity = nil
	bareNode := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}
	terms = Job(r, bare, bareNode, id).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Values[0] != "n3" {
		t.Errorf("terms %+v", terms)
	}
}

func TestVersions(t *testing.T) {
	configs := func(name string) string { return map[string]string{"rendered-1": "4.17.2"}[name] }
	for want, node := range map[string]*corev1.Node{
		"4.17.3": {ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{LabelVersion: "4.17.3"}, Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"},
		}},
		"4.17.2": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"}}},
		"":       {},
	} {
		if got := VersionOf(node, "", configs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	both := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{LabelVersion: "4.17.3"}, Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"},
	}}
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: both.Annotations}}
	for from, want := range map[VersionSource][2]string{
		VersionAuto: {"4.17.3", "4.17.2"}, VersionLabel: {"4.17.3", ""}, VersionConfig: {"4.17.2", "4.17.2"},
	} {
		if got := [2]string{VersionOf(both, from, configs), VersionOf(bare, from, configs)}; got != want {
			t.Errorf("%s: %v, want %v", from, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"4.17.2", "4.17.10", false}, {"4.17.3", "4.17.3", true}, {"v4.17.3", "4.17.3", true}, {"4.17.0-rc.1", "4.17.0", false},
		{"next", "next", true}, {"next", "4.17.0", false}, {"", "4.17.0", false},
	} {
		if Same(c.a, c.b) != c.same || Same(c.b, c.a) != c.same {
			t.Errorf("%s and %s", c.a, c.b)
		}
	}
}

func pool(name string, paused bool, selector *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{Paused: paused, NodeSelector: selector},
	}
}

// apply makes a pool what it is to be, and reads its claim as another process would.
func apply(t *testing.T, p *mcfgv1.MachineConfigPool, shape Shape) *Claim {
	t.Helper()
	p.Spec.Paused, p.Spec.NodeSelector = shape.Paused, shape.NodeSelector
	delete(p.Annotations, AnnotationClaim)
	if shape.Claim != "" {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, AnnotationClaim, shape.Claim)
	}
	if !ShapeOf(p).Equal(shape) {
		t.Errorf("the pool is %+v, not %+v", ShapeOf(p), shape)
	}
	claim, err := ClaimOf(p)
	if err != nil {
		t.Fatal(err)
	}
	return claim
}

func TestPoolsAreGivenBackAsTheyWere(t *testing.T) {
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/worker": ""}}
	picky := workers.DeepCopy()
	picky.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "isCanary", Operator: metav1.LabelSelectorOpExists}}
	keys := []string{LabelPrefix + "a.numo", LabelPrefix + "b.numo"}
	for name, before := range map[string]*mcfgv1.MachineConfigPool{
		"plain": pool("worker", false, workers), "with expressions": pool("infra", true, picky), "without a selector": pool("none", false, nil),
	} {
		for _, canary := range []bool{false, true} {
			p := before.DeepCopy()
			claim := Take(p, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").With(keys)
			claim.Canary = canary
			shape := func(c *Claim) Shape {
				if canary {
					return c.Open(p)
				}
				return c.Held()
			}
			claim = apply(t, p, shape(claim))
			again := apply(t, p, shape(claim))
			apply(t, p, again.Before(p))
			if diff := cmp.Diff(before.Spec, p.Spec); diff != "" || p.Annotations[AnnotationClaim] != "" {
				t.Errorf("%s: %s %v", name, diff, p.Annotations)
			}
		}
	}
	if _, err := ClaimOf(&mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationClaim: "?"}}}); err == nil {
		t.Error("a claim that cannot be read is none")
	}
}

// A node is in one pool at each moment, and one that is none of the run's never in the canary.
func TestANodeIsInOnePool(t *testing.T) {
	keys := []string{LabelPrefix + "a.numo", LabelPrefix + "b.numo"}
	workers := &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}}
	some := pool("any", false, workers)
	claim := Take(some, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").With(keys)
	target, err := metav1.LabelSelectorAsSelector(claim.Held().NodeSelector)
	if err != nil {
		t.Fatal(err)
	}
	canary, err := metav1.LabelSelectorAsSelector(claim.Open(some).NodeSelector)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		labels             labels.Set
		inTarget, inCanary bool
	}{
		"waits":          {labels.Set{"worker": "", LabelRun: "uid", keys[0]: "", keys[1]: ""}, true, false},
		"is let go":      {labels.Set{"worker": "", LabelRun: "uid"}, false, true},
		"in between":     {labels.Set{"worker": "", LabelRun: "uid", keys[0]: ""}, false, false},
		"another worker": {labels.Set{"worker": ""}, false, false},
		"another run's":  {labels.Set{"worker": "", LabelRun: "other"}, false, false},
	} {
		if target.Matches(c.labels) != c.inTarget || canary.Matches(c.labels) != c.inCanary {
			t.Errorf("a node that %s: target %v, canary %v", name, target.Matches(c.labels), canary.Matches(c.labels))
		}
	}
}

// Whoever may create Jobs can give one the labels and annotations of a rule's.
func TestOwnJobs(t *testing.T) {
	rule := &v1alpha1.MutexRule{Spec: v1alpha1.MutexRuleSpec{JobNamespace: "jobs", JobName: "check"}}
	rule.Namespace, rule.Name = "rules", "rule"
	run := &v1alpha1.MutexRunConfig{}
	run.UID = "run"
	node := &corev1.Node{}
	node.Name, node.UID = "node", "node-uid"
	id := JobID{Run: run.UID, Version: "1", Node: node.UID, Rule: types.NamespacedName{Namespace: "rules", Name: "rule"}, Kind: BeforeUpgrade}
	own := Job(rule, &batchv1.JobSpec{}, node, id)
	forge := func(change func(*batchv1.Job)) *batchv1.Job {
		forged := own.DeepCopy()
		change(forged)
		return forged
	}
	for name, c := range map[string]struct {
		job  *batchv1.Job
		rule bool
		want int
	}{
		"the rule's own":             {own, true, 1},
		"of a rule that is gone":     {own, false, 1},
		"in another namespace":       {forge(func(j *batchv1.Job) { j.Namespace = "tenant" }), true, 0},
		"of another name":            {forge(func(j *batchv1.Job) { j.Name = "check-forged" }), true, 0},
		"of a name with a prefix":    {forge(func(j *batchv1.Job) { j.Name = "x" + j.Name }), true, 0},
		"for another version":        {forge(func(j *batchv1.Job) { j.Annotations[AnnotationVersion] = "2" }), true, 0},
		"the same, the rule is gone": {forge(func(j *batchv1.Job) { j.Annotations[AnnotationVersion] = "2" }), false, 0},
	} {
		w := &World{Run: run, Jobs: map[types.NamespacedName]*batchv1.Job{{Namespace: c.job.Namespace, Name: c.job.Name}: c.job}}
		if c.rule {
			w.Rules = map[types.NamespacedName]*v1alpha1.MutexRule{id.Rule: rule}
		}
		if got := len(ownJobs(w)); got != c.want {
			t.Errorf("%s: %d Jobs count, want %d", name, got, c.want)
		}
	}
}
