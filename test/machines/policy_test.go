package machines

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestPolicy_Denials is about the policies in config/machines, which hold whether any operator runs or not.
func TestPolicy_Denials(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("checked", 0, nil)
	update := func(change func(*machinev1beta1.MachineSet)) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			set := p.Set()
			change(set)
			return w.Client.Update(t.Context(), set, client.DryRunAll)
		})
	}
	expression := func(operator metav1.LabelSelectorOperator, key string, values ...string) *machinev1beta1.MachineSet {
		set := p.Set()
		set.ObjectMeta = metav1.ObjectMeta{Namespace: set.Namespace, Name: "checked-" + strings.ToLower(string(operator))}
		set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}}
		return set
	}
	create := func(set *machinev1beta1.MachineSet) error { return w.Client.Create(t.Context(), set, client.DryRunAll) }
	// A policy is in force a moment after it is made.
	w.Eventually("the policies are in force", func() error {
		if err := update(func(set *machinev1beta1.MachineSet) { set.Spec.Selector.MatchLabels["a"] = "b" }); err != nil {
			return nil //nolint:nilerr // that is what is waited for
		}
		return errNotYet
	})
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"selector": {update(func(set *machinev1beta1.MachineSet) { set.Spec.Selector.MatchLabels["a"] = "b" }), "selector is immutable"},
		"labels": {
			update(func(set *machinev1beta1.MachineSet) { set.Spec.Template.Labels = map[string]string{"a": "b"} }), "does not match template",
		},
		"no labels":           {update(func(set *machinev1beta1.MachineSet) { set.Spec.Template.Labels = nil }), "does not match template"},
		"replicas":            {update(func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(-1)) }), "non-negative"},
		"minReadySeconds":     {update(func(set *machinev1beta1.MachineSet) { set.Spec.MinReadySeconds = -1 }), "must be 0 or more"},
		"scaled":              {update(func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(7)) }), ""},
		"In, wrong":           {create(expression(metav1.LabelSelectorOpIn, cluster.MachineSetLabel, "other")), "does not match template"},
		"In, right":           {create(expression(metav1.LabelSelectorOpIn, cluster.MachineSetLabel, "other", "checked")), ""},
		"NotIn, wrong":        {create(expression(metav1.LabelSelectorOpNotIn, cluster.MachineSetLabel, "checked")), "does not match template"},
		"NotIn, right":        {create(expression(metav1.LabelSelectorOpNotIn, "absent", "checked")), ""},
		"Exists, wrong":       {create(expression(metav1.LabelSelectorOpExists, "absent")), "does not match template"},
		"Exists, right":       {create(expression(metav1.LabelSelectorOpExists, cluster.MachineSetLabel)), ""},
		"DoesNotExist, wrong": {create(expression(metav1.LabelSelectorOpDoesNotExist, cluster.MachineSetLabel)), "does not match template"},
		"DoesNotExist, right": {create(expression(metav1.LabelSelectorOpDoesNotExist, "absent")), ""},
	} {
		if (c.err == nil) != (c.want == "") || c.err != nil && !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
}

// Like machine-api-operator's webhook, a denial names everything that is wrong.
func TestPolicies_DenyWithEveryReason(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("reasons", 0, nil)
	const (
		selector = "spec.selector: Forbidden: selector is immutable"
		labels   = "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`"
		ready    = "spec.minReadySeconds: Invalid value: must be 0 or more"
		value    = "providerSpec.value: Required value: a value must be provided"
	)
	create := func(change func(*machinev1beta1.MachineSetSpec)) func() error {
		return func() error {
			set := p.Set()
			set.ObjectMeta = metav1.ObjectMeta{Namespace: set.Namespace, Name: "reasons-new"}
			change(&set.Spec)
			return w.Client.Create(t.Context(), set, client.DryRunAll)
		}
	}
	update := func(change func(*machinev1beta1.MachineSetSpec)) func() error {
		return func() error {
			return retry.RetryOnConflict(retry.DefaultRetry, func() error {
				set := p.Set()
				change(&set.Spec)
				return w.Client.Update(t.Context(), set, client.DryRunAll)
			})
		}
	}
	for name, c := range map[string]struct {
		ask  func() error
		want string
	}{
		"labels": {create(func(s *machinev1beta1.MachineSetSpec) { s.Template.Labels = nil }), labels},
		"labels and no providerSpec": {create(func(s *machinev1beta1.MachineSetSpec) {
			s.Template.Labels, s.Template.Spec.ProviderSpec.Value = nil, nil
		}), "[" + labels + ", " + value + "]"},
		"selector and labels": {update(func(s *machinev1beta1.MachineSetSpec) {
			s.Selector.MatchLabels["a"] = "b"
		}), "[" + selector + ", " + labels + "]"},
		"everything": {update(func(s *machinev1beta1.MachineSetSpec) {
			s.Selector.MatchLabels["a"], s.MinReadySeconds, s.Template.Spec.ProviderSpec.Value = "b", -1, nil
		}), "[" + selector + ", " + labels + ", " + ready + ", " + value + "]"},
		"minReadySeconds and no providerSpec": {update(func(s *machinev1beta1.MachineSetSpec) {
			s.MinReadySeconds, s.Template.Spec.ProviderSpec.Value = -1, nil
		}), "[" + ready + ", " + value + "]"},
	} {
		w.Eventually(name+": the policies are in force", func() error {
			err := c.ask()
			if err == nil {
				return errNotYet
			}
			if _, got, _ := strings.Cut(err.Error(), " denied request: "); got != c.want {
				return fmt.Errorf("denied with %w, want %q", err, c.want)
			}
			return nil
		})
	}
}

func TestPolicy_HooksOfDeletedMachine(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("hookable", 1, nil)
	name := p.Runs(1)[0].Name
	hooks := func(list ...machinev1beta1.LifecycleHook) error {
		return w.Client.Patch(t.Context(), w.Machine(name), client.RawPatch("application/merge-patch+json", []byte(
			`{"spec":{"lifecycleHooks":{"preTerminate":`+hookList(list)+`}}}`)))
	}
	first, second := machinev1beta1.LifecycleHook{Name: "First", Owner: "one"}, machinev1beta1.LifecycleHook{Name: "Second", Owner: "two"}
	if err := hooks(first); err != nil {
		t.Fatal(err)
	}
	p.DeleteMachine(name)
	condition(p, name, "Terminable", "HookPresent")
	changed := first
	changed.Owner = "other"
	for _, list := range [][]machinev1beta1.LifecycleHook{{first, second}, {changed}} {
		if err := hooks(list...); err == nil || !strings.Contains(err.Error(), "pre-terminate hooks are immutable when machine is marked for deletion") {
			t.Errorf("%v: %v", list, err)
		}
	}
	if err := hooks([]machinev1beta1.LifecycleHook{}...); err != nil {
		t.Errorf("removing a hook: %v", err)
	}
	p.Gone(name)
}

func hookList(list []machinev1beta1.LifecycleHook) string {
	if len(list) == 0 {
		return "null"
	}
	return harness.JSON(list)
}

var errNotYet = errors.New("the policies are not in force yet")

func TestPolicy_InvalidDurations(t *testing.T) {
	w := prepared(t)
	create := func(timeout string, unhealthy ...any) error {
		check := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": cluster.MachineNamespace, "generateName": "durations-"},
			"spec":     map[string]any{"selector": map[string]any{}, "nodeStartupTimeout": timeout},
		}}
		for _, after := range unhealthy {
			condition := map[string]any{"type": "Ready", "status": "False", "timeout": after}
			check.Object["spec"].(map[string]any)["unhealthyConditions"] = []any{condition} //nolint:errcheck // it was just made
		}
		check.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineHealthCheck"))
		return w.Client.Create(t.Context(), check, client.DryRunAll)
	}
	w.Eventually("the policy is in force", func() error {
		if err := create("0foo"); err != nil {
			return nil //nolint:nilerr // that is what is waited for
		}
		return errNotYet
	})
	for timeout, taken := range map[string]bool{
		"0": true, "10m": true, "1h30m": true, "1.5h": true, "0s": true, "0foo": false, "x5m": false, "5": false,
		"876000h": true, "876001h": false, "9999999h": false, "99999999999999999999h": false,
	} {
		err := create(timeout)
		if (err == nil) != taken {
			t.Errorf("%q: %v", timeout, err)
		}
		if condition := create("10m", timeout); timeout != "0" && (condition == nil) != taken {
			t.Errorf("timeout %q of a condition: %v", timeout, condition)
		}
		if err == nil && timeout != "0" {
			if _, err := time.ParseDuration(timeout); err != nil {
				t.Errorf("%q is taken and cannot be read: %v", timeout, err)
			}
		}
	}
}

// An object with a number of more than 32 bits would keep every client from listing the kind. Kubernetes 1.34 and earlier do not check the format of
// an integer. No version checks the format of a field that is an integer or a string.
func TestPolicy_IntegersOfMoreThan32Bits(t *testing.T) {
	w := prepared(t)
	create := func(kind, field string, value any) error {
		object := &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": cluster.MachineNamespace, "generateName": "integers-"},
			"spec":     map[string]any{"selector": map[string]any{}, field: value},
		}}
		object.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind(kind))
		return w.Client.Create(t.Context(), object, client.DryRunAll)
	}
	const most, least = int64(math.MaxInt32), int64(math.MinInt32)
	for _, c := range []struct {
		kind, field string
		value       any
		taken       bool
	}{
		{"MachineHealthCheck", "maxUnhealthy", "40%", true},
		{"MachineHealthCheck", "maxUnhealthy", most, true},
		{"MachineHealthCheck", "maxUnhealthy", most + 1, false},
		{"MachineHealthCheck", "maxUnhealthy", least - 1, false},
		{"MachineSet", "replicas", most + 1, false},
		{"MachineSet", "replicas", least - 1, false},
		{"MachineSet", "minReadySeconds", most, true},
		{"MachineSet", "minReadySeconds", most + 1, false},
	} {
		w.Eventually(fmt.Sprintf("%s with %s %v: taken %v", c.kind, c.field, c.value, c.taken), func() error {
			if err := create(c.kind, c.field, c.value); (err == nil) != c.taken {
				return fmt.Errorf("%w: %w", errNotYet, cmp.Or(err, errors.New("taken")))
			}
			return nil
		})
	}
}
