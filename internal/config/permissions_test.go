package config

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// The shipped role has the permissions for the remediation templates that the configuration allows by default, and for their requests, and no others
// for kinds of other operators.
func TestDefault_RemediationTemplatesHavePermissions(t *testing.T) {
	text, err := os.ReadFile("../../config/machines/rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var granted, want []string
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		role := &rbacv1.Role{}
		if err := yaml.Unmarshal([]byte(document), role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				if !strings.HasSuffix(group, ".medik8s.io") && !strings.HasSuffix(group, ".x-k8s.io") {
					continue
				}
				if role.Kind != "Role" || role.Namespace != DefaultNamespace {
					t.Errorf("%s %s grants %s outside of the namespace of Machines", role.Kind, role.Name, group)
				}
				for _, resource := range rule.Resources {
					granted = append(granted, group+" "+resource+" "+strings.Join(rule.Verbs, ","))
				}
			}
		}
	}
	for _, text := range Default().Machines.Remediation.TemplateKinds {
		kind := schema.ParseGroupKind(text)
		template := strings.ToLower(kind.Kind)
		request := strings.TrimSuffix(template, "template")
		want = append(want, kind.Group+" "+template+"s get", kind.Group+" "+request+"s list,create,delete")
	}
	slices.Sort(granted)
	slices.Sort(want)
	if diff := cmp.Diff(want, granted); diff != "" {
		t.Errorf("config/machines/rbac.yaml (- the configuration, + the role): %s", diff)
	}
}

// The page says for each kind that Drover may read what it does because of objects of that kind, and what confirms it.
func TestSecurityPage_NamesEachKindThatIsRead(t *testing.T) {
	text, err := os.ReadFile("../../docs/security/objects.md")
	if err != nil {
		t.Fatal(err)
	}
	section, _, _ := strings.Cut(string(text), "\n## ")
	section = strings.ToLower(section)
	kinds := 0
	for _, rule := range rulesBelow(t, "../../config") {
		if !slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "get" || verb == "list" }) {
			continue
		}
		for _, resource := range rule.Resources {
			kind, _, _ := strings.Cut(resource, "/")
			// The configuration names the kinds of external remediation.
			if kind = singular(kind); !strings.Contains(kind, "remediation") && !strings.Contains(section, kind) {
				t.Errorf("docs/security/objects.md does not say what Drover does because of a %s (%v)", kind, rule)
			}
			kinds++
		}
	}
	if kinds < 40 {
		t.Errorf("the roles name %d kinds", kinds)
	}
}

// singular returns the name of a resource without its plural.
func singular(resource string) string {
	if name, found := strings.CutSuffix(resource, "ses"); found && name != "lea" {
		return name + "s"
	}
	return strings.TrimSuffix(resource, "s")
}

// rulesBelow returns the rules of all roles in the files of a folder.
func rulesBelow(t *testing.T, folder string) (rules []rbacv1.PolicyRule) {
	t.Helper()
	files := os.DirFS(folder)
	err := fs.WalkDir(files, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".yaml") || strings.HasPrefix(path, "crd/") {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			if !strings.Contains(document, "\nkind: Role\n") && !strings.Contains(document, "\nkind: ClusterRole\n") {
				continue
			}
			role := &rbacv1.Role{}
			if err := yaml.Unmarshal([]byte(document), role); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			rules = append(rules, role.Rules...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return rules
}
