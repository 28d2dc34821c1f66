package plan

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestVersionOf(t *testing.T) {
	configs := func(name string) string { return map[string]string{"rendered-1": "4.17.2"}[name] }
	for want, node := range map[string]*corev1.Node{
		"4.17.3": {ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{LabelVersion: "4.17.3"}, Annotations: map[string]string{AnnotationCurrentConfig: "unknown"},
		}},
		"4.17.1": {ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{LabelVersion: "4.17.1"}, Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"},
		}},
		"4.17.2": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"}}},
		"":       {},
	} {
		if got := VersionOf(node, "", configs); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	both := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{LabelVersion: "4.17.3"}, Annotations: map[string]string{AnnotationCurrentConfig: "rendered-1"},
	}}
	bare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: both.Annotations}}
	for from, want := range map[VersionSource][2]string{
		VersionAuto: {"4.17.2", "4.17.2"}, VersionLabel: {"4.17.3", ""}, VersionConfig: {"4.17.2", "4.17.2"},
	} {
		if got := [2]string{VersionOf(both, from, configs), VersionOf(bare, from, configs)}; got != want {
			t.Errorf("%s: %v, want %v", from, got, want)
		}
	}
	for _, c := range []struct{ label, ofConfig, want string }{
		{"4.17.10", "4.17.9", "4.17.9"}, {"4.17.9", "4.17.10", "4.17.9"}, {"4.17.0-rc.1", "4.17.0", "4.17.0-rc.1"}, {"4.17.2", "v4.17.2", "v4.17.2"},
		{"next", "4.17.0", "4.17.0"}, {"4.17.0", "next", "next"},
	} {
		if got := lower(c.label, c.ofConfig); got != c.want {
			t.Errorf("%s and %s: %s", c.label, c.ofConfig, got)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"4.17.2", "4.17.10", false}, {"4.17.3", "4.17.3", true}, {"v4.17.3", "4.17.3", true}, {"4.17.0-rc.1", "4.17.0", false},
		{"next", "next", true}, {"next", "4.17.0", false}, {"", "4.17.0", false},
	} {
		if SameVersion(c.a, c.b) != c.same || SameVersion(c.b, c.a) != c.same {
			t.Errorf("%s and %s", c.a, c.b)
		}
	}
}
