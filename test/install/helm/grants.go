package helm

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Grants is what the roles among the objects allow in a namespace, each as "verb resource.group name". The role that is for others to bind is left
// out.
func (o Objects) Grants(t testing.TB, namespace string) map[string]bool {
	t.Helper()
	granted := map[string]bool{}
	for key, object := range o {
		kind := object.GetKind()
		if key == "ClusterRole drover-metrics-reader" || kind != "ClusterRole" && (kind != "Role" || object.GetNamespace() != namespace) {
			continue
		}
		role := &rbacv1.Role{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			for _, grant := range Expand(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs) {
				granted[grant] = true
			}
		}
	}
	return granted
}

// Expand lists what a rule allows.
func Expand(groups, resources, names, verbs []string) []string {
	if len(names) == 0 {
		names = []string{""}
	}
	var all []string
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					grant := verb + " " + resource
					if group != "" {
						grant += "." + group
					}
					if name != "" {
						grant += " " + name
					}
					all = append(all, grant)
				}
			}
		}
	}
	return all
}
