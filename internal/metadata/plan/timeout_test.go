package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// TestNextTimeout: the time between two attempts doubles up to six hours, and it begins with the timeout itself.
func TestNextTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		want    []time.Duration
	}{
		"the default":    {DefaultGuardTimeout, []time.Duration{30 * time.Minute, time.Hour, 2 * time.Hour, 4 * time.Hour, 6 * time.Hour, 6 * time.Hour}},
		"a short one":    {time.Second, []time.Duration{time.Minute, 2 * time.Minute, 4 * time.Minute}},
		"the longest":    {168 * time.Hour, []time.Duration{6 * time.Hour, 6 * time.Hour}},
		"longer by half": {4 * time.Hour, []time.Duration{4 * time.Hour, 6 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			var current *ownership.Timeout
			for i, want := range c.want {
				current = NextTimeout(current, c.timeout, "a/b", groupTime)
				if got := time.Unix(current.Retry, 0).Sub(groupTime); got != want || current.Attempts != i+1 || current.Pod != "a/b" {
					t.Errorf("attempt %d: %+v, which is in %s, want %s", i+1, current, got, want)
				}
			}
		})
	}
	forged := NextTimeout(&ownership.Timeout{Attempts: 1 << 62}, time.Minute, "a/b", groupTime)
	if got := time.Unix(forged.Retry, 0).Sub(groupTime); got != maxGuardRetry {
		t.Errorf("after a forged number of attempts the next is in %s", got)
	}
}

func TestGuardTimeout(t *testing.T) {
	group := newGroup("a")
	if got := GuardTimeout(&v1alpha1.NoExecute{}); got != 30*time.Minute {
		t.Errorf("without a timeout it is %s", got)
	}
	if got := GuardTimeout(&v1alpha1.NoExecute{Timeout: &metav1.Duration{Duration: time.Hour}}); got != time.Hour {
		t.Errorf("with a timeout of an hour it is %s", got)
	}
	if got := GroupDeclarationOf(group).TimeoutOf(nil, ownership.DefaultProtected(), groupTime); got != nil {
		t.Errorf("without guarded taints there is a timeout: %+v", got)
	}
}

// TestDecideGroup_TimedOut: Pods that did not leave in time are named; what keeps others away stays until the next attempt, and nothing more is
// written. The record says so to the next process, unless the group has been changed.
func TestDecideGroup_TimedOut(t *testing.T) {
	group := withValue(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "blue")
	group.Generation = 1
	node := &corev1.Node{}
	node.Name = "n"
	node, _ = guardStep(t, node, group, GuardAnnounced, announcedID+"=blue")

	in := groupInput(node, group, group)
	in.TimedOut = NextTimeout(nil, time.Hour, "app/stays", groupTime)
	decision := DecideGroup(in)
	if !decision.Change.Write || decision.Drift {
		t.Fatalf("timed out, the decision is %+v", decision)
	}
	node = applyToNode(node, &decision)

	for _, guard := range []Guard{GuardHeld, GuardAnnounced} {
		in = groupInput(node, group, group)
		in.Guard = guard
		decision = DecideGroup(in)
		if decision.Change.Write || decision.State != RefusedState || len(decision.Guarded) != 1 {
			t.Errorf("guard %q until the next attempt: %+v", guard, decision)
		}
		text := decision.Problems[0].Message
		if !strings.Contains(text, "Pod app/stays") || !strings.Contains(text, groupTime.Add(time.Hour).UTC().Format(time.RFC3339)) {
			t.Errorf("guard %q: the message is %q", guard, text)
		}
	}
	guardStep(t, node, group, GuardClear, guardedID+"=blue")

	declaration := GroupDeclarationOf(group)
	if got := declaration.TimeoutOf(node.Annotations, ownership.DefaultProtected(), groupTime); got == nil || got.Attempts != 1 {
		t.Errorf("the record says %+v", got)
	}
	if got := declaration.TimeoutOf(node.Annotations, ownership.DefaultProtected(), groupTime.Add(-24*time.Hour)); got != nil {
		t.Errorf("a time that is too far away counts: %+v", got)
	}
	group.Generation++
	if got := GroupDeclarationOf(group).TimeoutOf(node.Annotations, ownership.DefaultProtected(), groupTime); got != nil {
		t.Errorf("after a change of the group the record says %+v", got)
	}
	in = groupInput(node, group, group)
	in.Guard = GuardAnnounced
	decision = DecideGroup(in)
	if after := applyToNode(node, &decision); strings.Contains(after.Annotations[ownership.AnnotationGroupRecord], "timeout") {
		t.Errorf("after a change of the group the record is %s", after.Annotations[ownership.AnnotationGroupRecord])
	}
}

// TestDeclaration_TimeoutOfForeignRecord: a record that cannot be read, or that another group has written, does not delay the next attempt.
func TestDeclaration_TimeoutOfForeignRecord(t *testing.T) {
	declaration := GroupDeclarationOf(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute))
	retry, digest := groupTime.Add(time.Hour).Unix(), declaration.digest(ownership.DefaultProtected())
	record := func(format, digest string) string { return fmt.Sprintf(format, digest, retry) }
	for name, c := range map[string]struct {
		record string
		counts bool
	}{
		"of the group":         {record(`{"pool":"a","digest":%q,"timeout":{"attempts":2,"retry":%d}}`, digest+announced), true},
		"without announcement": {record(`{"pool":"a","digest":%q,"timeout":{"attempts":2,"retry":%d}}`, digest), true},
		"for other taints":     {record(`{"pool":"a","digest":%q,"timeout":{"attempts":2,"retry":%d}}`, "other"+announced), false},
		"of another group":     {record(`{"pool":"b","digest":%q,"timeout":{"attempts":2,"retry":%d}}`, digest), false},
		"cut off":              {record(`{"pool":"a","digest":%q,"timeout":{"attempts":2,"retry":%d}`, digest), false},
		"none":                 {"", false},
	} {
		got := declaration.TimeoutOf(map[string]string{ownership.AnnotationGroupRecord: c.record}, ownership.DefaultProtected(), groupTime)
		if (got != nil) != c.counts || got != nil && (got.Attempts != 2 || got.Retry != retry) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
