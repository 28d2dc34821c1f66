package drain

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestReport_Text(t *testing.T) {
	budget := "PodDisruptionBudget shop/web needs 2 healthy pods and has 2"
	left := func(name string, reason Reason, detail string) RemainingPod {
		return RemainingPod{Namespace: "shop", Name: name, Reason: reason, Detail: detail}
	}
	term := func(name string, since, until time.Duration) RemainingPod {
		return RemainingPod{Namespace: "shop", Name: name, Reason: Terminating, Since: now.Add(since), Until: now.Add(until)}
	}
	for _, c := range []struct {
		name string
		left []RemainingPod
		want string
	}{
		{"one", []RemainingPod{left("a", Evicting, "")}, "1 pod left: 1 being evicted: shop/a"},
		{"the same reason", []RemainingPod{left("a", Budget, budget), left("b", Budget, budget)},
			"2 pods left: 2 blocked (" + budget + "): shop/a, shop/b"},
		{"two budgets: two groups", []RemainingPod{left("a", Budget, "x"), left("b", Budget, "y")},
			"2 pods left: 1 blocked (x): shop/a; 1 blocked (y): shop/b"},
		{"in the order of Reasons", []RemainingPod{left("a", Turn, ""), left("b", Evicting, ""), left("c", BudgetNever, budget)},
			"3 pods left: 1 blocked until the budget changes (" + budget + "): shop/c; 1 being evicted: shop/b; 1 waiting for their turn: shop/a"},
		{"times of a group", []RemainingPod{term("a", -10*time.Second, 20*time.Second), term("b", -30*time.Second, 0)},
			"2 pods left: 2 terminating since 11:59:30Z until 12:00:20Z: shop/a, shop/b"},
		{"only the end of a group is known", []RemainingPod{
			{Namespace: "shop", Name: "a", Reason: DoNotDisrupt, Until: now.Add(time.Minute)},
			{Namespace: "shop", Name: "b", Reason: DoNotDisrupt, Until: now.Add(time.Hour)},
		}, "2 pods left: 2 protected by karpenter.sh/do-not-disrupt until 13:00:00Z: shop/a, shop/b"},
		{"many pods", []RemainingPod{
			left("e", Evicting, ""), left("d", Evicting, ""), left("c", Evicting, ""), left("b", Evicting, ""), left("a", Evicting, ""),
		},
			"5 pods left: 5 being evicted: shop/a, shop/b, shop/c and 2 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			report := Report{Remaining: c.left}
			if got := report.Text(); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
}

// The text fits into a status and a line, and does not depend on the order of the pods.
func TestReport_TextIsBounded(t *testing.T) {
	var report Report
	for i := range 500 {
		report.Remaining = append(report.Remaining, RemainingPod{
			Namespace: "n", Name: fmt.Sprintf("p%03d", i), Reason: Webhook, Detail: strings.Repeat(fmt.Sprintf("é%d ", i%50), 400),
		})
	}
	text := report.Text()
	if len(text) > 3000 || !strings.HasSuffix(text, "and 45 more reasons") || !utf8.ValidString(text) {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	for i, j := 0, len(report.Remaining)-1; i < j; i, j = i+1, j-1 {
		report.Remaining[i], report.Remaining[j] = report.Remaining[j], report.Remaining[i]
	}
	if report.Text() != text {
		t.Error("the text depends on the order of the pods")
	}
}

func TestReasons_HaveAPhrase(t *testing.T) {
	for _, reason := range Reasons {
		if phrases[reason] == "" {
			t.Errorf("%s has none", reason)
		}
	}
	for outcome, reason := range reasonOf {
		if phrases[reason] == "" {
			t.Errorf("%s, of %s, has none", reason, outcome)
		}
	}
	report := Report{Exempted: map[Exempt]int{OfDaemonSet: 2, Static: 1}}
	if got, want := report.Text(), "all pods have left (left alone: 2 DaemonSet, 1 static)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestReport_Blocked: a drain is blocked while a pod is left that does not leave without a user, and that pod is the one to name.
func TestReport_Blocked(t *testing.T) {
	blocking := map[Reason]bool{
		BudgetNever: true, TwoBudgets: true, NotAllowed: true, Finalizer: true, Overdue: true, Budget: true, Webhook: true, DoNotDisrupt: true,
		PodsReturn: true,
		Completion: false, Failing: false, EndOfNamespace: false, Terminating: false, Evicting: false, Turn: false,
	}
	for _, reason := range Reasons {
		want, listed := blocking[reason]
		if !listed {
			t.Errorf("the test does not say whether %s blocks", reason)
		}
		report := Report{Remaining: []RemainingPod{
			{Namespace: "shop", Name: "a", Reason: Terminating}, {Namespace: "shop", Name: "b", Reason: reason},
		}}
		stuck := "shop/a"
		if want {
			stuck = "shop/b"
		}
		if report.Blocked() != want || report.Stuck() != stuck {
			t.Errorf("%s: blocked %t, stuck %s; want %t, %s", reason, report.Blocked(), report.Stuck(), want, stuck)
		}
	}
	if report := (&Report{}); report.Blocked() || report.Stuck() != "" {
		t.Errorf("without a pod: blocked %t, stuck %q", report.Blocked(), report.Stuck())
	}
}
