package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// unstructuredRun returns a MutexRunConfig as a user writes it, with one window.
func unstructuredRun(namespace, name string, window map[string]any) *unstructured.Unstructured {
	run := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"canary": map[string]any{"name": "canary"}, "mutexRules": []any{map[string]any{"name": "a"}},
		"mutexTargets": []any{map[string]any{"name": "b"}}, "windows": []any{window},
	}}}
	run.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MutexRunConfig"))
	run.SetNamespace(namespace)
	run.SetName(name)
	return run
}

// TestSchema_Schedule has the API server refuse schedules that are not five fields of cron.
func TestSchema_Schedule(t *testing.T) {
	s := &scenario{Site: harness.NewWorld(t, env).Site()}
	const refused, zone = "must be five fields of cron", "spec.windows[0].timeZone"
	for schedule, want := range map[string]string{
		"0 3 * * *": "", "*/15 0-5,22 1,15 JAN-MAR mon": "", "  0\t3 * * ?  ": "", "@daily": "", "@weekly": "",
		"TZ=UTC": refused, "CRON_TZ=UTC": refused, "TZ=UTC 0 3 * * *": refused, "@every 1h": refused, "@every": refused, "@reboot": refused,
		"": "spec.windows[0].schedule", "* * * *": refused, "* * * * * *": refused, "soon": refused, "0 3 * * *\n": refused,
		strings.Repeat("1,", 130) + "1 * * * *": "spec.windows[0].schedule",
	} {
		run := unstructuredRun(s.Name, "schedules", map[string]any{"schedule": schedule, "duration": "1h"})
		err := s.Client.Create(t.Context(), run, client.DryRunAll)
		if want == "" && err != nil || want != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want)) {
			t.Errorf("schedule %q: the answer is %v", schedule, err)
		}
	}
	for name, taken := range map[string]bool{"": true, "UTC": true, "Europe/Berlin": true, "America/Argentina/Buenos_Aires": true, "Etc/GMT+3": true,
		"Europe/Berlin 0 0 * * *": false, "TZ=UTC": false, strings.Repeat("a", 65): false} {
		run := unstructuredRun(s.Name, "zones", map[string]any{"schedule": "0 3 * * *", "duration": "1h", "timeZone": name})
		err := s.Client.Create(t.Context(), run, client.DryRunAll)
		if taken && err != nil || !taken && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), zone)) {
			t.Errorf("time zone %q: the answer is %v", name, err)
		}
	}
}

// TestRestore_OlderThanSchema deletes a run whose schedule was taken before the schema refused it: the finalizer can be removed all the same.
func TestRestore_OlderThanSchema(t *testing.T) {
	s := newScenario(t, scenarioOptions{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") }})
	before := s.state()
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs)
	if s.state() == before {
		t.Fatal("the run has changed nothing")
	}
	s.withoutScheduleSchema(func() {
		s.Eventually("the hostile schedule is taken", func() error {
			run := s.get("run")
			run.Spec.Windows = []v1alpha1.Window{{Schedule: "TZ=UTC", Duration: metav1.Duration{Duration: time.Hour}}}
			return s.Client.Update(t.Context(), run)
		})
	})
	s.await(v1alpha1.PhaseInvalid)
	if err := s.Client.Delete(t.Context(), s.get("run")); err != nil {
		t.Fatal(err)
	}
	s.expectRestored()
	s.Eventually("the run is gone", func() error {
		err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Name, Name: "run"}, &v1alpha1.MutexRunConfig{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading it gives %w", err)
	})
}

// withoutScheduleSchema calls do while the CRD of MutexRunConfigs has no rule for schedules.
func (s *scenario) withoutScheduleSchema(do func()) {
	s.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	change := func(what string, change func(schedule map[string]any)) {
		s.Eventually(what, func() error {
			if err := s.Client.Get(s.Context(), client.ObjectKey{Name: "mutexrunconfigs." + v1alpha1.GroupVersion.Group}, crd); err != nil {
				return err
			}
			versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
			if err != nil {
				return err
			}
			version, _ := versions[0].(map[string]any)
			path := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties", "windows", "items", "properties", "schedule"}
			schedule, there, err := unstructured.NestedMap(version, path...)
			if err != nil || !there {
				return fmt.Errorf("the schema of schedule: %v, %w", there, err)
			}
			change(schedule)
			if err := unstructured.SetNestedMap(version, schedule, path...); err != nil {
				return err
			}
			if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
				return err
			}
			return s.Client.Update(s.Context(), crd)
		})
	}
	const rules = "x-kubernetes-validations"
	var kept any
	change("the rule is taken out of the CRD", func(schedule map[string]any) {
		if schedule[rules] != nil {
			kept = schedule[rules]
		}
		delete(schedule, rules)
	})
	if kept == nil {
		s.Fatal("the CRD has no rule for schedules")
	}
	defer func() {
		change("the rule is back in the CRD", func(schedule map[string]any) { schedule[rules] = kept })
		s.Eventually("schedules are refused again", func() error {
			run := unstructuredRun(s.Name, "probe", map[string]any{"schedule": "TZ=UTC", "duration": "1h"})
			if err := s.Client.Create(s.Context(), run, client.DryRunAll); !apierrors.IsInvalid(err) {
				return fmt.Errorf("the answer is %w", err)
			}
			return nil
		})
	}()
	do()
}

// TestSchema_Durations checks that the API server rejects invalid durations: one would keep all runs of the cluster from being read.
func TestSchema_Durations(t *testing.T) {
	s := &scenario{Site: harness.NewWorld(t, env).Site()}
	const many = "1h1m1s1h1m1s1h1m1s1h1m1s1h1m1s1h1m1s"
	for _, field := range []string{"jobTimeout", "nodeTimeout", "duration"} {
		for value, taken := range map[string]bool{
			"90s": true, "1h30m": true, "1.5h": true, "0s": field != "duration", "1d": false, "": false, "90": false, "-1h": false, "soon": false,
			many: false,
		} {
			spec := map[string]any{
				"canary": map[string]any{"name": "canary"}, "mutexRules": []any{map[string]any{"name": "a"}},
				"mutexTargets": []any{map[string]any{"name": "b"}},
			}
			if field == "duration" {
				spec["windows"] = []any{map[string]any{"schedule": "0 0 * * *", "duration": value}}
			} else {
				spec[field] = value
			}
			run := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			run.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MutexRunConfig"))
			run.SetNamespace(s.Name)
			run.SetName("durations")
			err := s.Client.Create(t.Context(), run, client.DryRunAll)
			switch {
			case taken && err != nil:
				t.Errorf("%s %q: %v", field, value, err)
			case taken || value == many && apierrors.IsInvalid(err):
			case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be a duration"):
				t.Errorf("%s %q: the answer is %v", field, value, err)
			}
		}
	}
}
