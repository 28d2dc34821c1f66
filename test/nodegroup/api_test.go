package nodegroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/schedule"
	"github.com/drover-io/drover/test/harness"
)

// valid begins the YAML of a NodeGroup that selects Nodes.
const valid = `
apiVersion: drover.dev/v1alpha1
kind: NodeGroup
metadata: {name: %s}
spec:
  nodes: {selector: {matchLabels: {example.com/pool: validation}}}
`

// many returns 65 entries of a list or map in YAML.
func many(entry string) string {
	entries := make([]string, 65)
	for i := range entries {
		entries[i] = fmt.Sprintf(entry, i)
	}
	return strings.Join(entries, ", ")
}

// nodesExpression returns a selection of Nodes in YAML with an expression, and setsExpression one of MachineSets.
func nodesExpression(text string) string {
	return "nodes: {selector: {matchExpressions: [" + text + "]}}"
}

func setsExpression(text string) string {
	return "nodes: {machineSets: {namespace: x, selector: {matchExpressions: [" + text + "]}}}"
}

// TestValidation: the API server denies what cannot be used, and says why.
func TestValidation(t *testing.T) {
	w := harness.NewWorld(t, env)
	ask := func(spec string) (string, error) {
		text := fmt.Sprintf(valid, "invalid") + "  " + strings.ReplaceAll(spec, "}, metadata", "}\n  metadata") + "\n"
		if strings.HasPrefix(spec, "nodes") {
			text = strings.Replace(text, "  nodes: {selector: {matchLabels: {example.com/pool: validation}}}\n", "", 1)
		}
		return harness.Kubectl(t.Context(), w.Cluster, strings.NewReader(text), "create", "--dry-run=server", "-f", "-")
	}
	// A policy is in force a moment after it is made.
	w.Eventually("the policy is in force", func() error {
		if output, err := ask(nodesExpression("{key: a b, operator: Exists}")); err == nil {
			return fmt.Errorf("the API server accepts a key that no label can have: %s", output)
		}
		return nil
	})
	for name, c := range map[string]struct{ spec, want string }{
		"no Nodes":                {"nodes: {}", "exactly one of selector, machineSets and clusterAPI must be set"},
		"two kinds of Nodes":      {"nodes: {selector: {matchLabels: {a: b}}, machineSets: {namespace: x}}", "exactly one of"},
		"an empty selector":       {"nodes: {selector: {}}", "would select every Node"},
		"many labels":             {"nodes: {selector: {matchLabels: {" + many("l%d: x") + "}}}", "must have at most 64 labels"},
		"many expressions":        {"nodes: {selector: {matchExpressions: [" + many("{key: l%d, operator: Exists}") + "]}}", "must have at most 64 items"},
		"many labels of sets":     {"nodes: {machineSets: {namespace: x, selector: {matchLabels: {" + many("l%d: x") + "}}}}", "at most 64 labels"},
		"an unknown operator":     {nodesExpression("{key: a, operator: Like, values: [x]}"), "the operator must be In, NotIn, Exists or DoesNotExist"},
		"In without values":       {nodesExpression("{key: a, operator: In}"), "In and NotIn need values"},
		"Exists with values":      {nodesExpression("{key: a, operator: Exists, values: [x]}"), "Exists and DoesNotExist must not have any"},
		"a key of no label":       {nodesExpression("{key: a b, operator: Exists}"), "spec.nodes: Invalid value: a b: a selector needs the keys of labels"},
		"a value of no label":     {nodesExpression("{key: a, operator: In, values: [x, \"-\"]}"), "the values of a selector must be at most 63"},
		"a match of no key":       {"nodes: {selector: {matchLabels: {a: b, Example.com/a: b}}}", "spec.nodes: Invalid value: Example.com/a: a selector"},
		"a match of no value":     {"nodes: {selector: {matchLabels: {a: b c}}}", "the values of a selector must be at most 63"},
		"sets, unknown operator":  {setsExpression("{key: a, operator: Like, values: [x]}"), "the operator must be In, NotIn, Exists or DoesNotExist"},
		"sets, NotIn, no values":  {setsExpression("{key: a, operator: NotIn, values: []}"), "In and NotIn need values"},
		"sets, values of none":    {setsExpression("{key: a, operator: DoesNotExist, values: [x]}"), "DoesNotExist must not have any"},
		"sets, key of no label":   {setsExpression("{key: a/b/c, operator: Exists}"), "spec.nodes: Invalid value: a/b/c: a selector needs the keys"},
		"sets, value of no label": {setsExpression("{key: a, operator: In, values: [-x]}"), "the values of a selector must be at most 63"},
		"names and a selector":    {"nodes: {machineSets: {namespace: x, names: [a], selector: {}}}", "names and selector cannot be set both"},
		"a key that is none":      {"metadata: {labels: {\"a b\": x}}", "must be a qualified name"},
		"a value that is none":    {"metadata: {labels: {a: \"-\"}}", "a value must be at most 63"},
		"a long value":            {"metadata: {labels: {a: " + strings.Repeat("x", 64) + "}}", "Too long"},
		"a taint twice":           {"metadata: {taints: [{key: a, effect: NoSchedule}, {key: a, effect: NoSchedule, value: b}]}", "Duplicate value"},
		"a taint in both lists":   {"metadata: {taints: [{key: a, effect: NoSchedule}], setOnceTaints: [{key: a, effect: NoSchedule}]}", "is in taints"},
		"an effect that is none":  {"metadata: {taints: [{key: a, effect: Never}]}", "Unsupported value"},
		"no Nodes in flight":      {"rollout: {maxInFlight: 0}", "must be between 1 and 100000"},
		"a number that overflows": {"rollout: {maxInFlight: 99999999999}", "must be between 1 and 100000"},
		"more than all":           {"disruption: {maxUnavailable: 101%}", "must be between 0 and 100000, or a percentage"},
		"a negative budget":       {"disruption: {maxUnavailable: -1}", "must be between 0 and 100000"},
		"a long pause":            {"rollout: {pause: 169h}", "at most 168h"},
		"a duration that is none": {"rollout: {pause: 5 minutes}", "must be a duration"},
		"a release after a month": {"rollout: {releaseDelay: 720h}", "must be a duration"},
		"a duration that is huge": {"rollout: {pause: 999999h999999h}", "must be a duration"},
		"Refuse and NoExecute once": {
			"rollout: {noExecute: {policy: Refuse}}, metadata: {setOnceTaints: [{key: a, effect: NoExecute}]}", "policy is Refuse",
		},
		"too many pending Pods":  {"rollout: {stopWhen: {pendingPods: 201}}", "should be less than or equal to 200"},
		"Refuse and NoExecute":   {"rollout: {noExecute: {policy: Refuse}}, metadata: {taints: [{key: a, effect: NoExecute}]}", "policy is Refuse"},
		"Proceed without an end": {"rollout: {noExecute: {onTimeout: Proceed}}", "Proceed needs a timeout"},
		"a schedule of four":     {"disruption: {windows: [{schedule: \"0 22 * *  \", duration: 1h}]}", "must be five fields of cron"},
		"an unknown time zone": {
			"disruption: {windows: [{schedule: \"0 22 * * *\", duration: 1h, timeZone: Europe/Berln}]}", "unknown time zone Europe/Berln",
		},
		"a first wave above all":   {"rollout: {firstWave: 3, maxInFlight: 2}", "firstWave must not be above maxInFlight"},
		"a window of a second":     {"disruption: {windows: [{schedule: \"0 22 * * *\", duration: 1s}]}", "between 1m and 168h"},
		"more left than there is":  {"disruption: {windows: [{schedule: \"0 22 * * *\", duration: 1h, minRemaining: 2h}]}", "must not be longer"},
		"no certain time zone":     {"disruption: {windows: [{schedule: \"0 22 * * *\", duration: 1h, timeZone: Local}]}", "on each machine"},
		"a freeze that ends first": {"disruption: {freezes: [{from: 2026-12-20T00:00:00Z, to: 2026-12-02T00:00:00Z}]}", "from must be before to"},
		"a freeze without a zone":  {"disruption: {freezes: [{from: \"2026-12-20T00:00:00\", to: 2026-12-22T00:00:00Z}]}", "should match"},
		"replacement of Nodes":     {"replacement: {type: RollingUpdate}", "needs nodes.machineSets"},
		"none replaced at once": {
			"nodes: {machineSets: {namespace: x}}\n  replacement: {maxInFlight: 0%}", "must be between 1 and 1000",
		},
		"fewer, without a budget": {
			"nodes: {machineSets: {namespace: x}}\n  replacement: {type: RollingUpdate, maxSurge: 0%}", "set disruption.maxUnavailable",
		},
		"a long deadline":          {"replacement: {progressDeadline: 200h}", "progressDeadline"},
		"many declared labels":     {"metadata: {labels: {" + many("l%d: x") + "}}", "must have at most 64"},
		"many annotations":         {"metadata: {annotations: {" + many("l%d: x") + "}}", "must have at most 64"},
		"many taints":              {"metadata: {taints: [" + many("{key: t%d, effect: NoSchedule}") + "]}", "must have at most 32"},
		"many taints once":         {"metadata: {setOnceTaints: [" + many("{key: t%d, effect: NoSchedule}") + "]}", "must have at most 32"},
		"a taint twice, once":      {"metadata: {setOnceTaints: [{key: a, effect: NoSchedule}, {key: a, value: b, effect: NoSchedule}]}", "Duplicate"},
		"many windows":             {"disruption: {windows: [" + many("{schedule: \"%d 2 * * *\", duration: 1h}") + "]}", "must have at most 16"},
		"a window of a fortnight":  {"disruption: {windows: [{schedule: \"0 22 * * *\", duration: 336h}]}", "between 1m and 168h"},
		"a guard of a fortnight":   {"rollout: {noExecute: {timeout: 336h}}", "timeout"},
		"an unknown person policy": {"disruption: {personMaintenance: Ask}", "Unsupported value"},
		"an unknown capability":    {"disruption: {perCapability: [{capability: Drain, maxUnavailable: 1}]}", "Unsupported value"},
		"an unknown release":       {"metadata: {onRelease: Drop}", "Unsupported value"},
		"much history":             {"revisionHistoryLimit: 21", "less than or equal to 20"},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := ask(c.spec)
			if err == nil || !strings.Contains(output, c.want) {
				t.Errorf("error %v, output %s, want %q", err, output, c.want)
			}
		})
	}
}

// TestValidation_InvalidSchedules: the API server denies a schedule that cannot be read, with a hint.
func TestValidation_InvalidSchedules(t *testing.T) {
	f := newFixture(t, "schedules", 0)
	create := func(text string) error {
		return f.Client.Create(t.Context(), f.newGroup("schedules", func(spec *v1alpha1.NodeGroupSpec) {
			window := v1alpha1.Window{Schedule: text, Duration: metav1.Duration{Duration: time.Hour}}
			spec.Disruption = &v1alpha1.Disruption{Windows: []v1alpha1.Window{window}}
		}), client.DryRunAll)
	}
	// A policy is in force a moment after it is made.
	f.Eventually("the policy is in force", func() error {
		if create("0 22-6 * * *") == nil {
			return errors.New("the API server accepts a range that ends before it begins")
		}
		return nil
	})
	for text, want := range map[string]string{
		"0 25 * * 1-5":    "the second field is the hour, 0 to 23",
		"60 2 * * *":      "the first field is the minute, 0 to 59",
		"0 2 32 * *":      "the third field is the day of the month, 1 to 31",
		"0 2 * JANUARY *": "the fourth field is the month",
		"0 2 * * 7":       "Sunday is 0",
		"0 2 * * Monday":  "0 to 6 or SUN to SAT; Sunday is 0",
		"0 2 * * FRI-SUN": "Friday to Sunday is 5-6,0, since Sunday is 0",
		"0 2 * * 5-mon":   "a range must not end before it begins",
		"0 2 * nov-feb *": "a range must not end before it begins",
		"0 22-6 * * *":    "22 to 6 o'clock is 22-23,0-6",
		"*/0 2 * * *":     "the first field is the minute",
	} {
		if err := create(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("schedule %q: %v, want %q", text, err, want)
		}
	}
}

// TestValidation_Schedules: the API server accepts what cron does.
func TestValidation_Schedules(t *testing.T) {
	f := newFixture(t, "schedules", 0)
	for _, text := range []string{
		"0 22 * * 1-5", "*/15 0-23/2 1,15 jan-Jun MON-fri", "59 23 31 12 6", "00 08 ? * 0,6", "5-10/5,30 2 * 1,NOV sun", "0 22-23,0-6 1-7 * SUN-SAT",
	} {
		group := f.newGroup("schedules", func(spec *v1alpha1.NodeGroupSpec) {
			spec.Disruption = &v1alpha1.Disruption{Windows: []v1alpha1.Window{{
				Schedule: text, Duration: metav1.Duration{Duration: time.Hour}, TimeZone: "America/Argentina/Buenos_Aires",
			}}}
			spec.Rollout = &v1alpha1.Rollout{FirstWave: new(int32(3)), MaxInFlight: new(intstr.FromString("1%"))}
		})
		if err := f.Client.Create(t.Context(), group, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := schedule.Parse([]schedule.Window{{Schedule: text, Duration: time.Hour}}, nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestValidation_Selectors: the API server accepts every selector that can be parsed.
func TestValidation_Selectors(t *testing.T) {
	f, long := newFixture(t, "selectors", 0), strings.Repeat("x", 63)
	for name, selector := range map[string]metav1.LabelSelector{
		"labels":      {MatchLabels: map[string]string{"a": "", "example.com/team_a.b": "A-1_b.c", strings.Repeat("a", 253) + "/x": long}},
		"expressions": {MatchExpressions: everyOperator()},
	} {
		nodes := f.newGroup("selectors", func(spec *v1alpha1.NodeGroupSpec) { spec.Nodes = v1alpha1.NodeSelection{Selector: &selector} })
		sets := f.newGroup("selectors", func(spec *v1alpha1.NodeGroupSpec) {
			spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "x", Selector: &selector}}
		})
		for _, group := range []*v1alpha1.NodeGroup{nodes, sets} {
			if err := f.Client.Create(t.Context(), group, client.DryRunAll); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// everyOperator returns a requirement with each operator.
func everyOperator() []metav1.LabelSelectorRequirement {
	return []metav1.LabelSelectorRequirement{
		{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"x", ""}}, {Key: "b", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}},
		{Key: "c", Operator: metav1.LabelSelectorOpExists}, {Key: "d", Operator: metav1.LabelSelectorOpDoesNotExist, Values: []string{}},
	}
}

// TestAdmission_AuthorNeedsTheRights: Drover does for the author of a NodeGroup only what the author may do.
func TestAdmission_AuthorNeedsTheRights(t *testing.T) {
	f := newFixture(t, "author", 0)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "author"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"nodegroups"}, Verbs: []string{"*"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "author"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "author"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "author"}},
	}
	f.CreateWithCleanup(role)
	f.CreateWithCleanup(binding)
	config, err := env.As("author")
	if err != nil {
		t.Fatal(err)
	}
	author := harness.ClientFor(t, config)
	create := func(group *v1alpha1.NodeGroup) error { return author.Create(t.Context(), group, client.DryRunAll) }
	f.Eventually("it is denied without a right on nodes", func() error {
		if err := create(f.newGroup("author", withLabel("example.com/a", "b"))); err == nil || !strings.Contains(err.Error(), "you may not patch nodes") {
			return fmt.Errorf("error %w", err)
		}
		return nil
	})
	readRole := func(name string) *rbacv1.ClusterRole {
		read := &rbacv1.ClusterRole{}
		if err := f.Client.Get(t.Context(), types.NamespacedName{Name: name}, read); err != nil {
			t.Fatal(err)
		}
		return read
	}
	harness.Update(f.World, readRole, "author", func(role *rbacv1.ClusterRole) {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"patch"}})
	})
	f.Eventually("it is allowed with that right", func() error { return create(f.newGroup("author", withLabel("example.com/a", "b"))) })
	existing := f.newGroup("author-existing", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}}
		spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	})
	f.create(existing)
	annotate := func(key string) error {
		text := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"2026-01-01T00:00:00Z"}}}`, key)
		return author.Patch(t.Context(), existing.DeepCopy(), client.RawPatch(types.MergePatchType, text), client.DryRunAll)
	}
	for _, key := range []string{v1alpha1.AnnotationResume, v1alpha1.AnnotationConfirm, paused.Annotation, paused.ClusterAPIAnnotation} {
		if err := annotate(key); err == nil || !strings.Contains(err.Error(), "you may not delete machines in namespace machines") {
			t.Errorf("the annotation %s without the right to delete Machines: %v", key, err)
		}
	}
	if err := annotate("example.com/note"); err != nil {
		t.Errorf("another annotation: %v", err)
	}
	remove := func() error { return author.Delete(t.Context(), existing.DeepCopy(), client.DryRunAll) }
	if err := remove(); err == nil || !strings.Contains(err.Error(), "you may not delete machines in namespace machines") {
		t.Errorf("the deletion of a group that replaces, without the right to delete Machines: %v", err)
	}
	replacing := f.newGroup("author", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}}
		spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	})
	if err := create(replacing.DeepCopy()); err == nil || !strings.Contains(err.Error(), "you may not delete machines in namespace machines") {
		t.Errorf("a replacement without the right to delete Machines: %v", err)
	}
	harness.Update(f.World, readRole, "author", func(role *rbacv1.ClusterRole) {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{
			APIGroups: []string{"machine.openshift.io"}, Resources: []string{"machines"}, Verbs: []string{"delete"},
		})
	})
	f.Eventually("a replacement is allowed with that right", func() error { return create(replacing.DeepCopy()) })
}

// TestAdmission_KubeletsDoNotChooseTheirGroup: a kubelet changes neither what groups select its Node by, nor what Drover has recorded there.
func TestAdmission_KubeletsDoNotChooseTheirGroup(t *testing.T) {
	f := besideOthers(t, "kubelet", 1)
	f.create(f.newGroup("kubelet", withTaint("example.com/dedicated", "", corev1.TaintEffectNoSchedule)))
	f.create(f.newGroup("kubelet-capi", withClusterAPI))
	patch := f.kubelet("kubelet-00")
	if err := patch(`{"metadata":{"labels":{"example.com/other":"x"}}}`, false); err != nil {
		t.Fatalf("a kubelet may set another label: %v", err)
	}
	const pool = `{"metadata":{"labels":{"example.com/pool":"kubelet"}}}`
	for _, c := range []struct{ text, undo string }{
		{otherPool, pool},
		{`{"metadata":{"labels":{"example.com/pool":null}}}`, pool},
		{`{"metadata":{"annotations":{"cluster.x-k8s.io/owner-name":"x"}}}`, `{"metadata":{"annotations":{"cluster.x-k8s.io/owner-name":null}}}`},
		{`{"metadata":{"annotations":{"drover.dev/group-owned-metadata":"{}"}}}`, `{}`},
	} {
		f.eventuallyDenied("kubelet-00", c.text, c.undo, "a kubelet may not change")
	}
}

// TestAdmission_KubeletsRegister: a kubelet may register with the labels of its node pool, which groups select by. It may not register with an
// annotation that puts the Node in a group or makes it count as unavailable.
func TestAdmission_KubeletsRegister(t *testing.T) {
	f := besideOthers(t, "registers", 0)
	f.create(f.newGroup("registers", func(spec *v1alpha1.NodeGroupSpec) { spec.Disruption = &v1alpha1.Disruption{} }))
	f.create(f.newGroup("registers-capi", withClusterAPI))
	config, err := env.AsNode("registers-00")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := harness.ClientFor(t, config)
	register := func(annotation string) error {
		node := builder.Node("registers-00", builder.WithNodeLabels(map[string]string{labelPool: "registers"}))
		if annotation != "" {
			node.Annotations[annotation] = "x"
		}
		return kubelet.Create(t.Context(), node, client.DryRunAll)
	}
	for annotation, words := range map[string]string{
		"cluster.x-k8s.io/owner-name":          "by which NodeGroups select Nodes",
		"weave.works/kured-reboot-in-progress": "counts against the budgets of NodeGroups",
	} {
		f.Eventually("a kubelet may not register with "+annotation, func() error { return denied(register(annotation), words) })
	}
	if err := register(""); err != nil {
		t.Error("a kubelet may not register with the labels of its pool:", err)
	}
}

// kubelet returns a function that patches a Node, or its status, as its kubelet.
func (f *fixture) kubelet(name string) func(text string, status bool) error {
	f.Helper()
	config, err := env.AsNode(name)
	if err != nil {
		f.Fatal(err)
	}
	kubelet := harness.ClientFor(f, config)
	return func(text string, status bool) error {
		node, change := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, []byte(text))
		if status {
			return kubelet.Status().Patch(f.Context(), node, change)
		}
		return kubelet.Patch(f.Context(), node, change)
	}
}

// TestAdmission_KubeletsDoNotPretendReboots: a kubelet neither sets nor removes the annotation of kured that counts against the budget of a group.
// What programs write with the credentials of kubelets is allowed, whether kured works on the Node or not.
func TestAdmission_KubeletsDoNotPretendReboots(t *testing.T) {
	f := besideOthers(t, "reboot", 1)
	f.create(f.newGroup("reboot", func(spec *v1alpha1.NodeGroupSpec) { spec.Disruption = &v1alpha1.Disruption{} }))
	patch := f.kubelet("reboot-00")
	const annotation = "weave.works/kured-reboot-in-progress"
	deny := func(value, undo string) {
		text := func(value string) string {
			return fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, value)
		}
		f.eventuallyDenied("reboot-00", text(value), text(undo), "counts against the budgets of NodeGroups")
	}
	allow := func() {
		for _, text := range []string{
			`{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}`,
			`{"metadata":{"annotations":{"machineconfiguration.openshift.io/currentConfig":"a","machineconfiguration.openshift.io/desiredDrain":"drain-a"}}}`,
			`{"metadata":{"annotations":{"machineconfiguration.openshift.io/currentConfig":null,"machineconfiguration.openshift.io/desiredDrain":null}}}`,
		} {
			for _, status := range []bool{false, true} {
				if err := patch(text, status); err != nil {
					t.Errorf("%s, status %t: %v", text, status, err)
				}
			}
		}
	}
	const begun = `"2026-07-01T12:00:00Z"`
	deny(begun, "null")
	allow()
	f.patchNode("reboot-00", fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, annotation, begun))
	deny("null", begun)
	allow()
}
