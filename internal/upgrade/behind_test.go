package upgrade

import (
	"context"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// lagging is a cache whose view of some kinds is old: the watches of several kinds are not ordered among each other.
type lagging struct {
	client.Reader

	nodes *corev1.NodeList
	rules *v1alpha1.MutexRuleList
}

// lag returns the cache as it is now for Nodes, or for MutexRules.
func (s *stage) lag(nodes, rules bool) *lagging {
	s.t.Helper()
	l := &lagging{Reader: s.client}
	if nodes {
		l.nodes = &corev1.NodeList{}
		s.must(s.client.List(s.t.Context(), l.nodes))
	}
	if rules {
		l.rules = &v1alpha1.MutexRuleList{}
		s.must(s.client.List(s.t.Context(), l.rules))
	}
	return l
}

func (l *lagging) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	switch list := list.(type) {
	case *corev1.NodeList:
		if l.nodes != nil {
			l.nodes.DeepCopyInto(list)
			return nil
		}
	case *v1alpha1.MutexRuleList:
		if l.rules != nil {
			l.rules.DeepCopyInto(list)
			return nil
		}
	}
	return l.Reader.List(ctx, list, options...)
}

// TestConfirm_NodesUpgradedMeanwhile resumes a run whose nodes have come to the version while it was suspended, before the cache of Nodes shows
// that: no pool is paused for them.
func TestConfirm_NodesUpgradedMeanwhile(t *testing.T) {
	s := newStage(t, cast()...)
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	s.advance(6*time.Second, 2*time.Second)
	s.Cache = s.lag(true, false)
	for _, name := range []string{"n1", "n2"} {
		edit(s, node(name, "infra"), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
	}
	before := s.state()
	s.each = func() {
		if now := s.state(); now != before {
			t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
		}
	}
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	s.advance(10*time.Second, 2*time.Second)
	s.Cache = s.client
	s.rest(v1alpha1.PhaseIdle)
	if len(s.made) > 0 {
		t.Errorf("the Jobs %v were made", s.made)
	}
}

// TestCreateJob_RuleEdited has a rule edited and then the Job deleted that has failed, and the caches show the deletion first: the Job is not
// made again as the rule was.
func TestCreateJob_RuleEdited(t *testing.T) {
	s := newStage(t, cast()...)
	s.fails = func(*batchv1.Job) bool { return true }
	s.rest(v1alpha1.PhaseStopped)
	s.fails = nil
	s.Cache = s.lag(false, true)
	rule := &v1alpha1.MutexRule{ObjectMeta: named("a")}
	edit(s, rule, func(rule *v1alpha1.MutexRule) {
		rule.Generation = 2
		rule.Spec.JobSpec.Raw = []byte(strings.ReplaceAll(string(rule.Spec.JobSpec.Raw), `"image":"i"`, `"image":"edited"`))
	})
	rule.Status.Conditions[0].ObservedGeneration = 2
	s.must(s.client.Status().Update(t.Context(), rule))
	jobs := &batchv1.JobList{}
	s.must(s.client.List(t.Context(), jobs))
	if len(jobs.Items) != 1 {
		t.Fatalf("there are %d Jobs, want the one that has failed", len(jobs.Items))
	}
	s.must(s.client.Delete(t.Context(), &jobs.Items[0]))
	s.advance(10*time.Second, 2*time.Second)
	s.must(s.client.List(t.Context(), jobs))
	for i := range jobs.Items {
		t.Errorf("Job %s was made with image %s", jobs.Items[i].Name, jobs.Items[i].Spec.Template.Spec.Containers[0].Image)
	}
	s.Cache = s.client
	s.rest(v1alpha1.PhaseDone)
}
