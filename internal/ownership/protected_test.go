package ownership

import (
	"os"
	"regexp"
	"slices"
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

func TestMatch_EqualsARegexp(t *testing.T) {
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
func TestMatch_FastWithManyStars(t *testing.T) {
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
			"kubernetes.io/hostname": true, "topology.kubernetes.io/zone": true, "node-restriction.kubernetes.io/fips": true,
			"team.node-restriction.kubernetes.io/a": true, "topology.ebs.csi.aws.com/zone": false, "topology.kubernetes.io/rack": false,
			"node-role.kubernetes.io/worker": false, "node-role.kubernetes.io/infra": false, "machine.openshift.io/zone": false,
			"machine.openshift.io/interruptible-instance": false, "cluster.x-k8s.io/name": false, "node.cluster.x-k8s.io/x": false,
			"feature.node.kubernetes.io/cpu": false, "example.com/team": false, "hostname": false,
			"node.kubernetes.io/exclude-from-external-load-balancers": false,
			"node-role.kubernetes.io/control-plane":                   true, "node-role.kubernetes.io/master": true,
			"machineconfiguration.openshift.io/release-image-version": true,
			"upgrade.drover.dev/run":                                  true, "mutexrule.openshift-optional.skrzypek.io/rule.ns": true,
		},
		Annotation: {
			AnnotationRecord: true, "upgrade.drover.dev/released": true, AnnotationCustomLabels: true, "drover.dev/paused": true,
			"machine.openshift.io/machine": true, "machineconfiguration.openshift.io/currentConfig": true,
			"weave.works/kured-reboot-in-progress": true, "cluster.x-k8s.io/owner-name": true,
			"csi.volume.kubernetes.io/nodeid": true, "machine.openshift.io/note": false, "cluster.x-k8s.io/note": false, "example.com/note": false,
		},
		Taint: {
			"node.kubernetes.io/unschedulable:NoSchedule": true, "node.kubernetes.io/unreachable:NoExecute": true, "UpdateInProgress:PreferNoSchedule": true,
			"medik8s.io/drain:NoSchedule": true, "ToBeDeletedByClusterAutoscaler:NoSchedule": true, "kubevirt.io/drain:NoSchedule": true,
			"node-role.kubernetes.io/infra:NoSchedule": false, "dedicated:NoExecute": false, "node.kubernetes.io/any": true,
			"drover.dev/uninitialized:NoSchedule": true, "karpenter.sh/disrupted:NoSchedule": true, "node.cluster.x-k8s.io/uninitialized:NoSchedule": true,
			"node.cloudprovider.kubernetes.io/uninitialized:NoSchedule": true, "readiness.k8s.io/network:NoSchedule": false,
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

func TestDefaultProtected_IsValid(t *testing.T) {
	list := DefaultProtected()
	for _, patterns := range [][]string{list.Labels, list.Annotations, list.Taints} {
		for _, pattern := range patterns {
			if err := ValidatePattern(pattern); err != nil {
				t.Errorf("%q: %v", pattern, err)
			}
		}
	}
}

func TestNewProtected(t *testing.T) {
	added := Protected{Labels: []string{"example.com/*"}, Annotations: []string{"c/*"}, Taints: []string{"t"}}
	removed := Protected{
		Labels: []string{"topology.kubernetes.io/zone"}, Annotations: []string{"node.alpha.kubernetes.io/ttl", "drover.dev/*"},
		Taints: []string{"node.kubernetes.io/*", "medik8s.io/drain"},
	}
	protected := NewProtected(added, removed)
	for kind, wanted := range map[Kind]map[string]bool{
		Label:      {"example.com/a": true, "topology.kubernetes.io/zone": false, "topology.kubernetes.io/region": true},
		Annotation: {"c/d": true, "node.alpha.kubernetes.io/ttl": false, "drover.dev/paused": true},
		Taint:      {"t:NoSchedule": true, "t2:NoSchedule": false, "node.kubernetes.io/not-ready:NoExecute": false, "medik8s.io/drain:NoSchedule": true},
	} {
		for key, want := range wanted {
			if got := protected.Of(kind)(key); got != want {
				t.Errorf("%s %q: protected is %v", kind, key, got)
			}
		}
	}
	if !DefaultProtected().Of(Label)("topology.kubernetes.io/zone") || DefaultProtected().Of(Label)("example.com/a") {
		t.Error("the configuration changes the built-in list")
	}
	if (Protected{}).Of(Label)("kubernetes.io/hostname") {
		t.Error("the zero value protects")
	}
}

func TestValidateRemoved(t *testing.T) {
	for _, c := range []struct {
		kind    Kind
		pattern string
		want    string
	}{
		{Label, "topology.kubernetes.io/zone", ""},
		{Taint, "node.kubernetes.io/*", ""},
		{Label, "topology.*", "none of the built-in patterns that can be removed: kubernetes.io/hostname, "},
		{Label, "node.kubernetes.io/*", "none of the built-in patterns"},
		{Annotation, "drover.dev/*", "none of the built-in patterns"},
	} {
		err := ValidateRemoved(c.kind, c.pattern)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v, want %q", c.kind, c.pattern, err, c.want)
		}
	}
}

// docs/keys-of-the-system.md lists the built-in patterns.
func TestDefaultProtected_IsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/keys-of-the-system.md")
	if err != nil {
		t.Fatal(err)
	}
	list := DefaultProtected()
	for _, pattern := range slices.Concat(list.Labels, list.Annotations, list.Taints) {
		if !strings.Contains(string(page), "`"+pattern+"`") {
			t.Errorf("%s is not documented", pattern)
		}
	}
}
