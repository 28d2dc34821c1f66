package plan

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func TestParseJobSpec(t *testing.T) {
	for text, good := range map[string]bool{
		`{"template":{"spec":{"containers":[{"name":"c","image":"i"}],"restartPolicy":"Never"}}}`: true,
		`{"template":{"spec":{"container":[]}}}`:                                                  false,
		`{}{}`:                                                                                    false,
		`[]`:                                                                                      false,
		``:                                                                                        false,
	} {
		if _, err := ParseJobSpec(&runtime.RawExtension{Raw: []byte(text)}); (err == nil) != good {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := ParseJobSpec(nil); err == nil {
		t.Error("no spec is taken")
	}
}

func newRule(spec string) *v1alpha1.MutexRule {
	return &v1alpha1.MutexRule{
		ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "db"},
		Spec:       v1alpha1.MutexRuleSpec{JobName: "check", JobNamespace: "jobs", JobSpec: runtime.RawExtension{Raw: []byte(spec)}},
	}
}

// TestNewJob adds to what the rule declares, and replaces none of it.
func TestNewJob(t *testing.T) {
	r := newRule(`{"ttlSecondsAfterFinished":5,"template":{"spec":{"restartPolicy":"Never",
		"initContainers":[{"name":"i","image":"i","env":[{"name":"NODE_NAME","value":"mine"}]}],
		"containers":[{"name":"a","image":"i"},{"name":"b","image":"i","env":[{"name":"X","value":"1"}]}],
		"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
			{"matchExpressions":[{"key":"zone","operator":"In","values":["a"]}]},
			{"matchFields":[{"key":"metadata.name","operator":"In","values":["n2"]}]},{}]}}}}}}`)
	declared, err := ParseJobSpec(&r.Spec.JobSpec)
	if err != nil {
		t.Fatal(err)
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1", Labels: map[string]string{corev1.LabelHostname: "host1"}}}
	id := JobID{Run: "run", Version: "4.17.3", Node: node.UID, Rule: types.NamespacedName{Namespace: "numo", Name: "db"}, Kind: BeforeUpgrade}
	job := NewJob(r, declared, node, id)
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
	terms = NewJob(r, bare, bareNode, id).Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchExpressions[0].Values[0] != "n3" {
		t.Errorf("terms %+v", terms)
	}
}

// TestOwnJobs_Forged has Jobs with the labels and annotations of a rule's, which any user may set who may create Jobs.
func TestOwnJobs_Forged(t *testing.T) {
	rule := &v1alpha1.MutexRule{Spec: v1alpha1.MutexRuleSpec{JobNamespace: "jobs", JobName: "check"}}
	rule.Namespace, rule.Name = "rules", "rule"
	run := &v1alpha1.MutexRunConfig{}
	run.UID = "run"
	node := &corev1.Node{}
	node.Name, node.UID = "node", "node-uid"
	id := JobID{Run: run.UID, Version: "1", Node: node.UID, Rule: types.NamespacedName{Namespace: "rules", Name: "rule"}, Kind: BeforeUpgrade}
	own := NewJob(rule, &batchv1.JobSpec{}, node, id)
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
		"the rule's own":                        {own, true, 1},
		"of a deleted rule":                     {own, false, 1},
		"in another namespace":                  {forge(func(j *batchv1.Job) { j.Namespace = "tenant" }), true, 0},
		"of another name":                       {forge(func(j *batchv1.Job) { j.Name = "check-forged" }), true, 0},
		"of a name with a prefix":               {forge(func(j *batchv1.Job) { j.Name = "x" + j.Name }), true, 0},
		"for another version":                   {forge(func(j *batchv1.Job) { j.Annotations[AnnotationVersion] = "2" }), true, 0},
		"for another version of a deleted rule": {forge(func(j *batchv1.Job) { j.Annotations[AnnotationVersion] = "2" }), false, 0},
	} {
		in := &Input{Config: run, Jobs: map[types.NamespacedName]*batchv1.Job{{Namespace: c.job.Namespace, Name: c.job.Name}: c.job}}
		if c.rule {
			in.Rules = map[types.NamespacedName]*v1alpha1.MutexRule{id.Rule: rule}
		}
		if got := len(ownJobs(in)); got != c.want {
			t.Errorf("%s: %d Jobs count, want %d", name, got, c.want)
		}
	}
}
