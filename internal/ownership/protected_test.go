package ownership

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "A", false},
		{"a", "ab", false},
		{"a", "", false},
		{"*", "", true},
		{"*", "anything/at.all", true},
		{"a/*", "a/b/c", true},
		{"a/*", "a", false},
		{"a/*", "a/", true},
		{"*.a/*", "x.a/b", true},
		{"*.a/*", "a/b", false},
		{"*a*a", "aa", true},
		{"*a*a", "a", false},
		{"a*b*c", "a-b-b-c", true},
		{"a*b*c", "a-c-b", false},
		{"topology.*", "topology.kubernetes.io/zone", true},
		{"topology.*", "topologyXkubernetes.io/zone", false},
		{"a.b", "axb", false},
		{"**", "a", true},
	} {
		if got := match(c.pattern, c.text); got != c.want {
			t.Errorf("match(%q, %q) = %v", c.pattern, c.text, got)
		}
	}
}

// reference is the same rule, slow and obvious.
func reference(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	for i := range parts {
		parts[i] = regexp.QuoteMeta(parts[i])
	}
	return regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(text)
}

func TestMatchIsWhatARegexpSays(t *testing.T) {
	// Few letters, so that texts match half of the time.
	pattern, text := rapid.StringOfN(rapid.SampledFrom([]rune("ab./*")), 0, 8, -1), rapid.StringOfN(rapid.SampledFrom([]rune("ab./")), 0, 12, -1)
	rapid.Check(t, func(t *rapid.T) {
		p, s := pattern.Draw(t, "pattern"), text.Draw(t, "text")
		if got := match(p, s); got != reference(p, s) {
			t.Fatalf("match(%q, %q) = %v", p, s, got)
		}
	})
}

// A pattern comes from a file and a key from any user of the cluster: many stars must not make a match slow.
func TestMatchStaysFastWithManyStars(t *testing.T) {
	pattern, text := strings.Repeat("*a", 100)+"b", strings.Repeat("a", 20_000)
	if match(pattern, text) {
		t.Error("matched")
	}
}

func TestValidatePattern(t *testing.T) {
	for pattern, want := range map[string]string{
		"example.com/*":   "",
		"*.example.com/a": "",
		"a":               "",
		"*a*":             "",
		"":                "must not be empty",
		"a b":             "no blanks or commas",
		"a,b":             "no blanks or commas",
		"a\tb":            "no blanks or commas",
		"*":               "matches every key",
		"**":              "matches every key",
		"*/*":             "matches every key",
	} {
		err := ValidatePattern(pattern)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("ValidatePattern(%q) = %v, want %q", pattern, err, want)
		}
	}
}

func TestDefaultProtected(t *testing.T) {
	for kind, wanted := range map[Kind]map[string]bool{
		Label: {
			"kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true, "topology.ebs.csi.aws.com/zone": true,
			"node-role.kubernetes.io/worker": true, "node-role.kubernetes.io/infra": false, "machine.openshift.io/zone": true,
			"cluster.x-k8s.io/name": true, "node.cluster.x-k8s.io/x": true, "feature.node.kubernetes.io/cpu": true,
			"vendor.feature.node.kubernetes.io/x": true, "example.com/team": false, "hostname": false,
			"node.kubernetes.io/exclude-from-external-load-balancers": false,
		},
		Annotation: {
			AnnotationRecord: true, AnnotationCustomLabels: true, "drover.dev/paused": true, "machineconfiguration.openshift.io/state": true,
			"csi.volume.kubernetes.io/nodeid": true, "k8s.ovn.org/node-subnets": true, "example.com/note": false,
		},
		Taint: {
			"node.kubernetes.io/unschedulable:NoSchedule": true, "node.kubernetes.io/unreachable:NoExecute": true, "UpdateInProgress:PreferNoSchedule": true,
			"medik8s.io/drain:NoSchedule": true, "ToBeDeletedByClusterAutoscaler:NoSchedule": true, "kubevirt.io/drain:NoSchedule": true,
			"node-role.kubernetes.io/infra:NoSchedule": false, "dedicated:NoExecute": false, "node.kubernetes.io/any": true,
		},
	} {
		protected := DefaultProtected().Of(kind)
		for key, want := range wanted {
			if protected(key) != want {
				t.Errorf("%s %q: protected is %v", kind, key, !want)
			}
		}
	}
}

func TestDefaultProtectedIsValid(t *testing.T) {
	list := DefaultProtected()
	for _, patterns := range [][]string{list.Labels, list.Annotations, list.Taints} {
		for _, pattern := range patterns {
			if err := ValidatePattern(pattern); err != nil {
				t.Errorf("%q: %v", pattern, err)
			}
		}
	}
}

func TestProtectedAnd(t *testing.T) {
	base := Protected{Labels: append(make([]string, 0, 8), "a"), Taints: []string{"t"}}
	both := base.And(Protected{Labels: []string{"b"}, Annotations: []string{"c/*"}})
	other := base.And(Protected{Labels: []string{"x"}})
	for _, key := range []string{"a", "b"} {
		if !both.Of(Label)(key) {
			t.Errorf("label %s is not protected", key)
		}
	}
	if !both.Of(Annotation)("c/d") || !both.Of(Taint)("t:NoSchedule") || both.Of(Taint)("t2:NoSchedule") {
		t.Error("annotations and taints are not taken together")
	}
	if both.Of(Label)("x") || !other.Of(Label)("x") {
		t.Error("two extensions of one list share memory")
	}
	if (Protected{}).Of(Label)("kubernetes.io/hostname") {
		t.Error("the zero value protects")
	}
}
