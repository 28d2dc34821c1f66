package upgrade

import (
	"context"
	"slices"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/harness"
)

// unprivileged is while the operator had no right to read MutexRules.
var unprivileged struct{ from, to time.Time }

// TestCapabilities_OneDoesNotStart: a capability that may not read what it needs keeps no other one from starting, and starts when it may.
func TestCapabilities_OneDoesNotStart(t *testing.T) {
	w := harness.NewWorld(t, env)
	role := &rbacv1.ClusterRole{}
	if err := w.Client.Get(t.Context(), client.ObjectKey{Name: "drover-upgrade"}, role); err != nil {
		t.Fatal(err)
	}
	allowed := role.DeepCopy()
	role.Rules = slices.DeleteFunc(role.Rules, func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.Resources, "mutexrules") })
	if len(role.Rules) == len(allowed.Rules) {
		t.Fatal("the role has no such rule")
	}
	unprivileged.from = time.Now()
	if err := w.Client.Update(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	restore := func() {
		allowed.ResourceVersion = ""
		if err := w.Client.Update(context.WithoutCancel(w.Context()), allowed.DeepCopy()); err != nil {
			t.Error(err)
		}
	}
	restored := false
	t.Cleanup(func() {
		if !restored {
			restore()
		}
	})
	operator := harness.Start(t, env, harness.Options{})
	for _, line := range []string{
		"capability metadata: running", "capability maintenance: running", "capability node-groups: running", "capability upgrade: filling caches",
	} {
		if err := operator.Says(t.Context(), line); err != nil {
			t.Fatal(err)
		}
	}
	restore()
	restored = true
	if err := operator.Says(t.Context(), "capability upgrade: running"); err != nil {
		t.Fatal(err)
	}
	unprivileged.to = time.Now()
}
