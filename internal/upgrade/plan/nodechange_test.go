package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// format returns a change in one line.
func format(change NodeChange) string {
	var words []string
	for _, part := range []map[string]*string{change.Labels, change.Annotations} {
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

func nodeWith(labels map[string]string, annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n", ResourceVersion: "7", Labels: labels, Annotations: annotations}}
}

func TestGateNode(t *testing.T) {
	a, b, stale := LabelPrefix+"a.numo", LabelPrefix+"b.numo", LabelPrefix+"old.numo"
	release := func(version string) map[string]string {
		return map[string]string{AnnotationReleased: fmt.Sprintf(`{"version":%q,"at":"2026-07-01T12:00:00Z"}`, version)}
	}
	ours := map[string]string{LabelRun: "uid"}
	both := map[string]string{LabelRun: "uid", a: "", b: ""}
	working := release("4.17.2")
	working[annotationState] = stateWorking
	for name, c := range map[string]struct {
		node     *corev1.Node
		required []string
		want     string
	}{
		"new":                             {nodeWith(nil, nil), nil, "+a.numo +b.numo +run"},
		"labeled":                         {nodeWith(both, nil), nil, ""},
		"labeled in part":                 {nodeWith(map[string]string{LabelRun: "uid", a: ""}, nil), nil, "+b.numo"},
		"of another run":                  {nodeWith(map[string]string{LabelRun: "other", a: "", b: ""}, nil), nil, "+run"},
		"released":                        {nodeWith(ours, release("4.17.3")), nil, ""},
		"released for another version":    {nodeWith(ours, release("4.17.2")), nil, "+a.numo +b.numo -released"},
		"the same, and being updated":     {nodeWith(ours, working), nil, ""},
		"released, and labeled again":     {nodeWith(both, release("4.17.3")), nil, "-released"},
		"a rule was removed from the run": {nodeWith(map[string]string{LabelRun: "uid", a: "", b: "", stale: ""}, nil), nil, "-old.numo"},
		"the same, and a selector still requires its label": {
			nodeWith(map[string]string{LabelRun: "uid", a: "", b: "", stale: ""}, nil), []string{stale}, "",
		},
		"released before the year 0, which no status can say": {
			nodeWith(ours, map[string]string{AnnotationReleased: `{"version":"4.17.3","at":"0000-01-01T00:00:00+00:01"}`}), nil, "+a.numo +b.numo -released",
		},
		"released in the year 10000, which no status can say": {
			nodeWith(ours, map[string]string{AnnotationReleased: `{"version":"4.17.3","at":"9999-12-31T23:59:59-23:59"}`}), nil, "+a.numo +b.numo -released",
		},
		"an invalid release": {nodeWith(ours, map[string]string{AnnotationReleased: "?"}), nil, "+a.numo +b.numo -released"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := format(gateNode(c.node, "uid", []string{a, b}, c.required, "4.17.3")); got != c.want {
				t.Errorf("change %q, want %q", got, c.want)
			}
		})
	}
}

func TestNodeChanges(t *testing.T) {
	a := LabelPrefix + "a.numo"
	keys := []string{a}
	released := nodeWith(map[string]string{LabelRun: "uid"}, map[string]string{AnnotationReleased: "{}"})
	waiting := nodeWith(map[string]string{LabelRun: "uid", a: ""}, nil)
	foreign := nodeWith(map[string]string{"x": "y"}, nil)
	for name, c := range map[string]struct{ got, want string }{
		"release":                    {format(*releaseNode(waiting, Release{Version: "4.17.3", At: metav1.NewTime(testTime)})), "-a.numo +released"},
		"return":                     {format(returnNode(released, "uid", keys)), "+a.numo"},
		"return: not released":       {format(returnNode(waiting, "uid", keys)), ""},
		"return: node of the canary": {format(returnNode(nodeWith(map[string]string{LabelRun: "uid"}, nil), "uid", keys)), ""},
		"return: not of the run":     {format(returnNode(foreign, "uid", keys)), ""},
		"strip":                      {format(stripNode(waiting, "uid")), "-a.numo -run"},
		"strip: released":            {format(stripNode(released, "uid")), "-run -released"},
		"strip: not of the run":      {format(stripNode(foreign, "uid")), ""},
		"canary":                     {format(keepInCanary(foreign, "uid")), "+run"},
		"canary: labeled":            {format(keepInCanary(released, "uid")), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: change %q, want %q", name, c.got, c.want)
		}
	}
	change := stripNode(waiting, "uid")
	const want = `{"metadata":{"labels":{"mutexrule.openshift-optional.skrzypek.io/a.numo":null,"upgrade.drover.dev/run":null},` +
		`"resourceVersion":"7","uid":"n"}}`
	if patch := string(change.Patch()); patch != want {
		t.Errorf("the patch is %s", patch)
	}
}
