package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/ownership"
)

// groupTime is the time of the decisions about groups.
var groupTime = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newGroup returns a NodeGroup that declares labels, written as "key=value", and has declared them.
func newGroup(name string, labels ...string) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{}}
	for _, text := range labels {
		key, value, _ := strings.Cut(text, "=")
		group.Spec.Metadata.Labels[key] = v1alpha1.LabelValue(value)
		group.Status.OwnedKeys = append(group.Status.OwnedKeys, "label/"+key)
	}
	return group
}

// withGroupTaint declares a taint.
func withGroupTaint(group *v1alpha1.NodeGroup, key string, effect corev1.TaintEffect) *v1alpha1.NodeGroup {
	group.Spec.Metadata.Taints = append(group.Spec.Metadata.Taints, v1alpha1.Taint{Key: key, Effect: effect})
	group.Status.OwnedKeys = append(group.Status.OwnedKeys, fmt.Sprintf("taint/%s:%s", key, effect))
	return group
}

// groupInput returns the input for a Node in a group; a nil group is none.
func groupInput(node *corev1.Node, group, recorded *v1alpha1.NodeGroup) GroupInput {
	in := GroupInput{Node: node, Protected: ownership.DefaultProtected(), Now: groupTime}
	if group != nil {
		in.Declaration = GroupDeclarationOf(group)
	}
	if recorded != nil {
		in.Confirmed = ParseOwnedKeys(recorded.Status.OwnedKeys)
		in.Remove = group != nil && recorded.Name == group.Name && group.DeletionTimestamp == nil ||
			recorded.Spec.Metadata != nil && recorded.Spec.Metadata.OnRelease == v1alpha1.ReleaseRemove
	}
	return in
}

// applyToNode returns the Node as it is when a decision has been written.
func applyToNode(node *corev1.Node, decision *GroupDecision) *corev1.Node {
	after := node.DeepCopy()
	if !decision.Change.Write {
		return after
	}
	results := decision.Change.Results
	after.Labels = ownership.Apply(node.Labels, results[ownership.Label])
	after.Annotations = ownership.Apply(node.Annotations, results[ownership.Annotation])
	after.Spec.Taints = ownership.ApplyTaints(node.Spec.Taints, results[ownership.Taint])
	if after.Annotations == nil {
		after.Annotations = map[string]string{}
	}
	after.Annotations[ownership.AnnotationGroupRecord] = decision.Change.Record
	if decision.Change.Record == "" {
		delete(after.Annotations, ownership.AnnotationGroupRecord)
	}
	return after
}

func nodeWith(labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{}, Annotations: map[string]string{}}}
	for _, text := range labels {
		key, value, _ := strings.Cut(text, "=")
		node.Labels[key] = value
	}
	return node
}

// labelsOf returns the labels of a Node as "key=value", sorted.
func labelsOf(node *corev1.Node) string {
	var out []string
	for key, value := range node.Labels {
		out = append(out, key+"="+value)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// member returns a Node that has "team=blue" from the group a, and "theirs=1" from another writer.
func member() *corev1.Node {
	a, node := newGroup("a", "team=blue"), nodeWith("theirs=1")
	decision := DecideGroup(groupInput(node, a, nil))
	return applyToNode(node, &decision)
}

// groupCase is a Node, its NodeGroup, the NodeGroup that its record names, and what the Node has when the decision is carried out.
type groupCase struct {
	node            *corev1.Node
	group, recorded *v1alpha1.NodeGroup
	change          func(*GroupInput)
	want            string
	state           State
	owned           string
}

// check decides, and once more when the decision is carried out: then nothing is to be written.
func (c *groupCase) check(t *testing.T) {
	in := groupInput(c.node, c.group, c.recorded)
	if c.change != nil {
		c.change(&in)
	}
	decision := DecideGroup(in)
	after := applyToNode(c.node, &decision)
	if got := labelsOf(after); got != c.want || decision.Settled != c.state {
		t.Errorf("labels %q, want %q; state %s, want %s; problems %v", got, c.want, decision.Settled, c.state, decision.Problems)
	}
	record, err := ownership.ParseGroupRecord(after.Annotations[ownership.AnnotationGroupRecord])
	if owned := strings.Join(record.Labels.Sorted(), " "); err != nil || owned != c.owned {
		t.Errorf("owned are %q, want %q (%v)", owned, c.owned, err)
	}
	again := groupInput(after, c.group, c.group)
	if c.change != nil {
		c.change(&again)
	}
	if c.group == nil {
		again = groupInput(after, nil, nil)
	}
	if next := DecideGroup(again); next.Change.Write {
		t.Errorf("the next decision writes %v", next.Change)
	}
}

func TestDecideGroup(t *testing.T) {
	remove := func(group *v1alpha1.NodeGroup) *v1alpha1.NodeGroup {
		group.Spec.Metadata.OnRelease = v1alpha1.ReleaseRemove
		return group
	}
	for name, c := range map[string]*groupCase{
		"first write": {
			node: nodeWith("theirs=1"), group: newGroup("a", "team=blue"),
			want: "team=blue theirs=1", state: Synced, owned: "team",
		},
		"another writer was first": {node: nodeWith("team=red"), group: newGroup("a", "team=blue"), want: "team=red", state: Conflicted},
		"a key of the system": {
			node: nodeWith(), group: newGroup("a", "kubernetes.io/hostname=x", "b=1"),
			want: "b=1", state: RefusedState, owned: "b",
		},
		"the Node leaves, Keep":   {node: member(), recorded: newGroup("a", "team=blue"), want: "team=blue theirs=1", state: Synced},
		"the Node leaves, Remove": {node: member(), recorded: remove(newGroup("a", "team=blue")), want: "theirs=1", state: Synced},
		"the Node leaves when its Machine declares a key": {
			node: member(), recorded: newGroup("a", "team=blue"), change: withMachine("team", "red"), want: "team=red theirs=1", state: Synced,
		},
		"the Node leaves a lost group": {node: member(), want: "team=blue theirs=1", state: Synced},
		"the Node moves, Keep": {
			node: member(), group: newGroup("b", "tier=1"), recorded: newGroup("a", "team=blue"),
			want: "team=blue theirs=1 tier=1", state: Synced, owned: "tier",
		},
		"the Node moves, Remove": {
			node: member(), group: newGroup("b", "tier=1"), recorded: remove(newGroup("a", "team=blue")),
			want: "theirs=1 tier=1", state: Synced, owned: "tier",
		},
		"both groups declare a key": {
			node: member(), group: newGroup("b", "team=red"), recorded: newGroup("a", "team=blue"),
			want: "team=red theirs=1", state: Synced, owned: "team",
		},
		"what the Machine declares": {
			node: nodeWith("team=red"), group: newGroup("a", "team=blue"), change: withMachine("team", "red"),
			want: "team=red", state: Synced,
		},
		"the Machine has taken over a key": {
			node: member(), group: newGroup("a", "team=blue"), recorded: newGroup("a", "team=blue"), change: func(in *GroupInput) {
				withMachine("team", "red")(in)
				in.MachineOwned.Labels = ownership.NewKeys("team")
			},
			want: "team=blue theirs=1", state: Synced,
		},
		"the Machine takes over a key that the group withdraws": {
			node: member(), group: newGroup("a"), recorded: newGroup("a", "team=blue"), change: withMachine("team", "red"),
			want: "team=red theirs=1", state: Synced,
		},
		"the Machine loses a key that the group withdraws and the Node has lost": {
			node: unlabelled(member(), "team"), group: newGroup("a"), recorded: newGroup("a", "team=blue"), change: withMachine("team", "red"),
			want: "theirs=1", state: Synced,
		},
		"the Machine declares a key, and is not written yet": {
			node: member(), group: newGroup("a", "team=blue"), recorded: newGroup("a", "team=blue"), change: withMachine("team", "red"),
			want: "team=blue theirs=1", state: Synced, owned: "team",
		},
		"the Node has got the value of the Machine": {
			node: labelled(member(), "team", "red"), group: newGroup("a", "team=blue"), recorded: newGroup("a", "team=blue"),
			change: withMachine("team", "red"), want: "team=red theirs=1", state: Synced,
		},
		"two Machines name the Node": {
			node: member(), group: newGroup("a", "team=red"), recorded: newGroup("a", "team=blue"),
			change: func(in *GroupInput) { in.NodeShared = true }, want: "team=blue theirs=1", state: Held, owned: "team",
		},
		"a suspended group": {node: nodeWith(), group: suspended(newGroup("a", "team=blue")), want: "", state: Held},
		"a suspended group, and the Node is as it declares": {
			node: member(), group: suspended(newGroup("a", "team=blue")), recorded: newGroup("a", "team=blue"),
			want: "team=blue theirs=1", state: Synced, owned: "team",
		},
		"a suspended group, and another writer was first": {
			node: nodeWith("team=red"), group: suspended(newGroup("a", "team=blue")), want: "team=red", state: Conflicted,
		},
		"the Node is being deleted": {node: deleted(nodeWith()), group: newGroup("a", "team=blue"), want: "", state: Pending},
		"the Node is being deleted, and is as declared": {
			node: deleted(member()), group: newGroup("a", "team=blue"), recorded: newGroup("a", "team=blue"),
			want: "team=blue theirs=1", state: Synced, owned: "team",
		},
		"a record that a kubelet wrote": {
			node: forged("theirs"), group: newGroup("a", "team=blue"), recorded: newGroup("a", "team=blue"),
			want: "team=blue theirs=1", state: RefusedState, owned: "team theirs",
		},
	} {
		t.Run(name, c.check)
	}
}

func labelled(node *corev1.Node, key, value string) *corev1.Node {
	node.Labels[key] = value
	return node
}

func unlabelled(node *corev1.Node, key string) *corev1.Node {
	delete(node.Labels, key)
	return node
}

func withMachine(key, value string) func(*GroupInput) {
	return func(in *GroupInput) { in.Machine = Entries{ownership.Label: {key: value}} }
}

// TestGroupDeclarationOf_Suspend: a group that is suspended declares the same, so that its roll-out does not begin again.
func TestGroupDeclarationOf_Suspend(t *testing.T) {
	before, after := GroupDeclarationOf(newGroup("a", "team=blue")), GroupDeclarationOf(suspended(newGroup("a", "team=blue")))
	if before.Revision != after.Revision || before.Paused || !after.Paused {
		t.Errorf("%+v, %+v", before, after)
	}
}

func deleted(node *corev1.Node) *corev1.Node {
	node.DeletionTimestamp = &metav1.Time{}
	return node
}

func suspended(group *v1alpha1.NodeGroup) *v1alpha1.NodeGroup {
	group.Spec.Suspend = true
	return group
}

// forged returns a Node whose record names a label that the group a never declared.
func forged(key string) *corev1.Node {
	node := nodeWith(key + "=1")
	node.Annotations[ownership.AnnotationGroupRecord] = fmt.Sprintf(`{"labels":[%q],"pool":"a"}`, key)
	return node
}

// TestDecideGroup_UninitializedTaint: the first write removes the taint that the kubelet has registered the Node with.
func TestDecideGroup_UninitializedTaint(t *testing.T) {
	node := nodeWith()
	node.Spec.Taints = []corev1.Taint{{Key: TaintUninitialized, Effect: corev1.TaintEffectNoSchedule}}
	group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoSchedule)
	decision := DecideGroup(groupInput(node, group, nil))
	if after := applyToNode(node, &decision); len(after.Spec.Taints) != 1 || after.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("taints are %v", after.Spec.Taints)
	}
	if alone := DecideGroup(groupInput(node, nil, nil)); alone.Change.Changed() {
		t.Errorf("a Node in no group loses it: %v", alone.Change)
	}
}

// TestGroupDeclarationOf_UntrustedSelector: labels that isolate workloads need a selector that kubelets cannot influence.
func TestGroupDeclarationOf_UntrustedSelector(t *testing.T) {
	const isolating = "tenant.node-restriction.kubernetes.io/name"
	for name, c := range map[string]struct {
		nodes   v1alpha1.NodeSelection
		trusted bool
	}{
		"any label":     {v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}}, false},
		"such a label":  {v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{isolating: "a"}}}, true},
		"MachineSets":   {v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}}, true},
		"a Cluster API": {v1alpha1.NodeSelection{ClusterAPI: &v1alpha1.ClusterAPIOwner{}}, false},
		"the absence of such a label": {v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: isolating, Operator: metav1.LabelSelectorOpDoesNotExist},
		}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup("a", isolating+"=a")
			group.Spec.Nodes = c.nodes
			declaration := GroupDeclarationOf(group)
			if _, kept := declaration.Desired[ownership.Label][isolating]; kept != c.trusted || len(declaration.Problems) == 0 != c.trusted {
				t.Errorf("kept %t, problems %v", kept, declaration.Problems)
			}
		})
	}
}

// TestGroupDeclarationOf_Deselects: if a label would make the group not select its Nodes any more, the label is left out.
func TestGroupDeclarationOf_Deselects(t *testing.T) {
	expression := func(operator metav1.LabelSelectorOperator, values ...string) v1alpha1.NodeSelection {
		return v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{
			MatchLabels:      map[string]string{"pool": "a"},
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: operator, Values: values}},
		}}
	}
	byLabel := func(key, value string) v1alpha1.NodeSelection {
		return v1alpha1.NodeSelection{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}}
	}
	sets := v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}}
	withControlPlane := byLabel("pool", "a")
	withControlPlane.IncludeControlPlane = true
	for name, c := range map[string]struct {
		nodes v1alpha1.NodeSelection
		label string
		kept  bool
	}{
		"a label that it does not select by":        {byLabel("pool", "a"), "tier=default", true},
		"the value that it selects by":              {byLabel("tier", "default"), "tier=default", true},
		"another value":                             {byLabel("tier", "batch"), "tier=default", false},
		"the label must not exist":                  {expression(metav1.LabelSelectorOpDoesNotExist), "tier=default", false},
		"the label must exist":                      {expression(metav1.LabelSelectorOpExists), "tier=default", true},
		"not this value":                            {expression(metav1.LabelSelectorOpNotIn, "default"), "tier=default", false},
		"not another value":                         {expression(metav1.LabelSelectorOpNotIn, "batch"), "tier=default", true},
		"one of other values":                       {expression(metav1.LabelSelectorOpIn, "batch", "web"), "tier=default", false},
		"one of several values":                     {expression(metav1.LabelSelectorOpIn, "batch", "default"), "tier=default", true},
		"an invalid selector":                       {expression("Maybe"), "tier=default", true},
		"the control plane, excluded":               {byLabel("pool", "a"), nodestate.LabelControlPlane + "=", false},
		"the control plane, excluded, MachineSets":  {sets, nodestate.LabelMaster + "=", false},
		"the control plane, included":               {withControlPlane, nodestate.LabelControlPlane + "=", true},
		"MachineSets, whatever labels the Node has": {sets, "tier=default", true},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup("a", c.label, "team=blue")
			group.Spec.Nodes = c.nodes
			node, key := nodeWith("pool=a"), strings.Split(c.label, "=")[0]
			in := groupInput(node, group, nil)
			roles := ownership.Protected{Labels: []string{nodestate.LabelControlPlane, nodestate.LabelMaster}}
			in.Protected = ownership.NewProtected(ownership.Protected{}, roles)
			decision := DecideGroup(in)
			after := applyToNode(node, &decision)
			if _, kept := after.Labels[key]; kept != c.kept || after.Labels["team"] != "blue" {
				t.Errorf("the labels are %v", after.Labels)
			}
			if refused := problemList(decision.Problems).has(Deselects); refused == c.kept || refused != (decision.Settled == RefusedState) {
				t.Errorf("state %s, problems %v", decision.Settled, decision.Problems)
			}
		})
	}
}

// TestDecideGroup_Properties: whatever groups declare one after another, and others write between, foreign labels stay, and two decisions suffice.
func TestDecideGroup_Properties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := []string{"a", "b", "c"}
		node := nodeWith("foreign=1")
		recorded, groups := (*v1alpha1.NodeGroup)(nil), map[string]*v1alpha1.NodeGroup{}
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, "group")
			var group *v1alpha1.NodeGroup
			if name != "" {
				group = newGroup(name)
				for _, key := range keys {
					if value := rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, key); value != "" {
						group.Spec.Metadata.Labels[key] = v1alpha1.LabelValue(value)
					}
					group.Status.OwnedKeys = append(group.Status.OwnedKeys, "label/"+key)
				}
				group.Spec.Metadata.OnRelease = rapid.SampledFrom([]v1alpha1.ReleasePolicy{v1alpha1.ReleaseKeep, v1alpha1.ReleaseRemove}).Draw(t, "release")
				groups[name] = group
			}
			recorded = groups[recordedGroup(node)]
			text := node.Annotations[ownership.AnnotationGroupRecord]
			in := groupInput(node, group, recorded)
			declared := mustJSON(t, in.Declaration)
			decision := DecideGroup(in)
			checkRecords(t, text)
			if now := mustJSON(t, in.Declaration); now != declared {
				t.Fatalf("the declaration, which all Nodes share, was %s and is %s", declared, now)
			}
			node = applyToNode(node, &decision)
			again := DecideGroup(groupInput(node, group, groups[recordedGroup(node)]))
			if again.Change.Write {
				t.Fatalf("the second decision for group %q writes %v after %v", name, again.Change, decision.Change)
			}
			if node.Labels["foreign"] != "1" {
				t.Fatalf("the label of another writer is gone: %v", node.Labels)
			}
			if group == nil && node.Annotations[ownership.AnnotationGroupRecord] != "" {
				t.Fatalf("a Node in no group has a record: %v", node.Annotations)
			}
		}
	})
}

func recordedGroup(node *corev1.Node) string {
	name, _ := GroupOf(node)
	return name
}

// TestGroupDeclarationOf_RevisionIsBounded: the revision of every group that the API server accepts fits into the status.
func TestGroupDeclarationOf_RevisionIsBounded(t *testing.T) {
	group := newGroup("a")
	for i := range 32 {
		group.Spec.Metadata.SetOnceTaints = append(group.Spec.Metadata.SetOnceTaints, v1alpha1.Taint{
			Key: strings.Repeat("x", 40) + fmt.Sprint(i), Effect: corev1.TaintEffectNoSchedule,
		})
	}
	before := GroupDeclarationOf(group).Revision
	group.Spec.Metadata.SetOnceTaints = group.Spec.Metadata.SetOnceTaints[1:]
	if after := GroupDeclarationOf(group).Revision; len(before) > 128 || before == after {
		t.Errorf("revisions %q and %q", before, after)
	}
}

// TestGroupDeclarationOf_NoExecute: a taint that would have Kubernetes delete Pods is guarded unless the group allows it. A taint that is set once is
// held back.
func TestGroupDeclarationOf_NoExecute(t *testing.T) {
	for policy, want := range map[v1alpha1.NoExecutePolicy]bool{"": false, v1alpha1.NoExecuteGuard: false, v1alpha1.NoExecuteAllow: true} {
		group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute)
		group.Spec.Metadata.SetOnceTaints = []v1alpha1.Taint{{Key: "once", Effect: corev1.TaintEffectNoExecute}}
		if policy != "" {
			group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: policy}}
		}
		declaration := GroupDeclarationOf(group)
		kept, reported, once := len(declaration.Desired[ownership.Taint]) == 2, len(declaration.Problems) == 1, declaration.Once.Len() == 1
		if guarded := declaration.Guarded.Len() == 1; kept != want || reported == want || once != want || guarded == want {
			t.Errorf("policy %q: desired %v, problems %v", policy, declaration.Desired, declaration.Problems)
		}
	}
}

// TestDecideGroup_Contended: a key that another writer keeps changing is left alone and named; everything else is written.
func TestDecideGroup_Contended(t *testing.T) {
	group := newGroup("a")
	group.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "blue", "tier": "batch"}
	in := groupInput(&corev1.Node{}, group, group)
	in.Contended = func(kind ownership.Kind, key string) bool { return kind == ownership.Label && key == "team" }
	decision := DecideGroup(in)
	if set := decision.Change.Results[ownership.Label].Set; set["tier"] != "batch" || len(set) != 1 {
		t.Errorf("labels %v are set", set)
	}
	if decision.State != Held || len(decision.Problems) != 1 || decision.Problems[0].Reason != Contended || decision.Problems[0].Key != "team" {
		t.Errorf("the decision is %+v", decision)
	}
}

// TestDecideGroup_Reached: a Node has been reached once it has been written with what is declared, whatever another writer changes then.
func TestDecideGroup_Reached(t *testing.T) {
	group := newGroup("a")
	group.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"team": "blue"}
	group.Status.OwnedKeys = OwnedKeys(GroupDeclarationOf(group).Section())
	node := &corev1.Node{}
	type answer struct{ reached, write, drift bool }
	for step, want := range []answer{{false, true, false}, {true, false, false}, {true, true, true}, {false, true, false}} {
		switch step {
		case 2:
			node.Labels["team"] = "mine"
		case 3:
			group.Spec.Metadata.Labels["team"] = "red"
		}
		decision := DecideGroup(groupInput(node, group, group))
		if decision.Reached != want.reached || decision.Change.Write != want.write || decision.Drift != want.drift {
			t.Errorf("step %d: reached %t, write %t, drift %t, want %+v", step, decision.Reached, decision.Change.Write, decision.Drift, want)
		}
		node = applyToNode(node, &decision)
	}
}
