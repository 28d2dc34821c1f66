package config

import (
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
