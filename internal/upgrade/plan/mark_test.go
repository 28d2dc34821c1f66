package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// short is a set of marks in a line.
func short(marks Marks) string {
	var words []string
	for _, part := range []map[string]*string{marks.Labels, marks.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(part)) {
			sign := "+"
			if part[key] == nil {
				sign = "-"
			}
			words = append(words, sign+key[strings.LastIndex(key, "/")+1:])
		}
	}
	return strings.Join(words, " ")
}

func marked(labels map[string]string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "7", Labels: labels, Annotations: annotations}}
}

func TestGate(t *testing.T) {
	a, b, stale := LabelPrefix+"a.numo", LabelPrefix+"b.numo", LabelPrefix+"old.numo"
	release := func(version string) map[string]string {
		return map[string]string{AnnotationReleased: fmt.Sprintf(`{"version":%q,"at":"2026-07-01T12:00:00Z"}`, version)}
	}
	ours := map[string]string{LabelRun: "uid"}
	both := map[string]string{LabelRun: "uid", a: "", b: ""}
	working := release("4.17.2")
	working[annotationState] = stateWorking
	for name, c := range map[string]struct {
		node  *corev1.Node
		asked []string
		want  string
	}{
		"new":                                    {marked(nil, nil), nil, "+a.numo +b.numo +run"},
		"labelled":                               {marked(both, nil), nil, ""},
		"labelled by half":                       {marked(map[string]string{LabelRun: "uid", a: ""}, nil), nil, "+b.numo"},
		"another run's":                          {marked(map[string]string{LabelRun: "other", a: "", b: ""}, nil), nil, "+run"},
		"let go":                                 {marked(ours, release("4.17.3")), nil, ""},
		"let go for another version":             {marked(ours, release("4.17.2")), nil, "+a.numo +b.numo -released"},
		"the same, and at work":                  {marked(ours, working), nil, ""},
		"let go, and labelled again":             {marked(both, release("4.17.3")), nil, "-released"},
		"a rule is the run's no more":            {marked(map[string]string{LabelRun: "uid", a: "", b: "", stale: ""}, nil), nil, "-old.numo"},
		"the same, and a pool still asks for it": {marked(map[string]string{LabelRun: "uid", a: "", b: "", stale: ""}, nil), []string{stale}, ""},
		"a record that cannot be read":           {marked(ours, map[string]string{AnnotationReleased: "?"}), nil, "+a.numo +b.numo -released"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := short(Gate(c.node, "uid", []string{a, b}, c.asked, "4.17.3")); got != c.want {
				t.Errorf("marks %q, want %q", got, c.want)
			}
		})
	}
}

func TestMarksComeAndGo(t *testing.T) {
	a := LabelPrefix + "a.numo"
	keys := []string{a}
	free := marked(map[string]string{LabelRun: "uid"}, map[string]string{AnnotationReleased: "{}"})
	held := marked(map[string]string{LabelRun: "uid", a: ""}, nil)
	foreign := marked(map[string]string{"x": "y"}, nil)
	letGo, err := LetGo(held, Release{Version: "4.17.3", At: metav1.NewTime(start)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ got, want string }{
		"let go":                 {short(letGo), "-a.numo +released"},
		"taken back":             {short(TakeBack(free, "uid", keys)), "+a.numo"},
		"never let go":           {short(TakeBack(held, "uid", keys)), ""},
		"the canary's own stays": {short(TakeBack(marked(map[string]string{LabelRun: "uid"}, nil), "uid", keys)), ""},
		"taken back: foreign":    {short(TakeBack(foreign, "uid", keys)), ""},
		"stripped":               {short(Strip(held, "uid")), "-a.numo -run"},
		"stripped when let go":   {short(Strip(free, "uid")), "-run -released"},
		"stripped: foreign":      {short(Strip(foreign, "uid")), ""},
		"the canary's own":       {short(Join(foreign, "uid")), "+run"},
		"the canary's own, has":  {short(Join(free, "uid")), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: marks %q, want %q", name, c.got, c.want)
		}
	}
	patch, err := Strip(held, "uid").Patch(held)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"metadata":{"labels":{"mutexrule.openshift-optional.skrzypek.io/a.numo":null,"upgrade.drover.dev/run":null},` +
		`"resourceVersion":"7","uid":"n"}}`
	if string(patch) != want {
		t.Errorf("the patch is %s", patch)
	}
}

func TestMembers(t *testing.T) {
	byRole := func(role string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + role: ""}}
	}
	claimed := pool("claimed", false, byRole("claimed"))
	claim := Take(claimed, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").With([]string{LabelPrefix + "a.numo"})
	claimed.Spec.NodeSelector = claim.Held().NodeSelector
	metav1.SetMetaDataAnnotation(&claimed.ObjectMeta, AnnotationClaim, claim.Text())
	members, err := NewMembers([]*mcfgv1.MachineConfigPool{
		pool("worker", false, byRole("worker")), pool("master", false, byRole("master")), pool("infra", false, byRole("infra")), claimed,
		pool("empty", false, &metav1.LabelSelector{}), pool("none", false, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	for roles, want := range map[string]string{
		"worker": "worker", "master": "master", "master,worker": "master", "infra,worker": "infra", "infra": "infra", "master,infra": "master",
		"infra,claimed,worker": "claimed infra", "claimed,worker": "claimed", "other": "",
	} {
		labels := map[string]string{}
		for role := range strings.SplitSeq(roles, ",") {
			labels["node-role.kubernetes.io/"+role] = ""
		}
		if got := strings.Join(members.PoolsOf(marked(labels, nil)), " "); got != want {
			t.Errorf("%s: %q, want %q", roles, got, want)
		}
	}
	bad := pool("bad", false, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}})
	if _, err := NewMembers([]*mcfgv1.MachineConfigPool{bad}); err == nil {
		t.Error("a selector that cannot be read is taken")
	}
}

// What somebody else puts into a selector meanwhile is there in the end, too.
func TestASelectorThatIsEditedMeanwhile(t *testing.T) {
	key := LabelPrefix + "a.numo"
	before := &metav1.LabelSelector{MatchLabels: map[string]string{"worker": ""}}
	p := pool("a", false, before)
	claim := Take(p, types.NamespacedName{Namespace: "numo", Name: "run"}, "uid").With([]string{key})
	if claim.Edited(claim.Held().NodeSelector) != claim {
		t.Error("it takes its own change for another's")
	}
	edited := claim.Held().NodeSelector.DeepCopy()
	edited.MatchLabels["zone"] = "a"
	for name, now := range map[string]*metav1.LabelSelector{
		"added to": edited, "and the rule's label taken out": {MatchLabels: edited.MatchLabels},
	} {
		got := claim.Edited(now)
		asked := got.Held().NodeSelector.MatchExpressions
		if got.NodeSelector.MatchLabels["zone"] != "a" || len(got.NodeSelector.MatchExpressions) != 0 || len(asked) != 1 {
			t.Errorf("%s: %+v", name, got.NodeSelector)
		}
	}
	if got := claim.Edited(nil); got.NodeSelector != nil {
		t.Errorf("%+v", got.NodeSelector)
	}
}

func TestMaxUnavailable(t *testing.T) {
	for text, want := range map[string]int{"": 1, "3": 3, "0": 1, "9%": 1, "25%": 5, "much": 1} {
		p := pool("a", false, nil)
		if text != "" {
			p.Spec.MaxUnavailable = new(intstr.Parse(text))
		}
		if got := MaxUnavailable(p, 20); got != want {
			t.Errorf("%q of 20: %d, want %d", text, got, want)
		}
	}
}
