package e2e

import (
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// grant lets a user do some verbs and returns the user's kubeconfig. Machines and MachineSets are granted in the namespace only.
func (p *machineSet) grant(user string, verbs ...string) string {
	p.t.Helper()
	subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	name := metav1.ObjectMeta{Name: user}
	local := metav1.ObjectMeta{Name: user, Namespace: p.namespace}
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: name, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: name, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		},
		&rbacv1.Role{ObjectMeta: local, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"machine.openshift.io"}, Resources: []string{"machinesets", "machines"}, Verbs: verbs,
		}}},
		&rbacv1.RoleBinding{ObjectMeta: local, Subjects: subject, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user}},
	} {
		p.create(object)
	}
	config, err := env.As(user)
	return kubeconfigOf(p.t, config, err)
}

// TestLeastPrivilege: reading needs only get and list; errors name the missing permissions.
func TestLeastPrivilege(t *testing.T) {
	p := newMachineSet(t, 1, map[string]string{"tier": "gold"})
	reader := p.grant("reader-of-"+p.namespace, "get", "list")
	// Permissions reach the authorizer through a watch; until then the answer is 403.
	for until := newBackoff(t); ; until.wait() {
		if got := p.droverAs(reader, "plan"); got.code == 2 {
			break
		} else if !strings.Contains(got.errors, "forbidden") {
			t.Fatalf("%+v", got)
		}
	}
	for args, code := range map[string]int{"plan": 2, "status": 0, "explain " + p.node(0): 0} {
		if got := p.droverAs(reader, strings.Fields(args)...); got.code != code || got.errors != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
	for args, want := range map[string]string{
		"plan -A": `cannot list resource`, "pause node/" + p.node(0): `cannot patch resource "nodes"`,
	} {
		got := p.droverAs(reader, strings.Fields(args)...)
		if got.code != 1 || !strings.Contains(got.errors, want) || !strings.Contains(got.errors, "which rights you lack") {
			t.Errorf("%s: %+v", args, got)
		}
	}
	config, err := env.As("stranger-to-" + p.namespace)
	stranger := kubeconfigOf(t, config, err)
	if got := p.droverAs(stranger, "status"); got.code != 1 || !strings.Contains(got.errors, "forbidden") {
		t.Errorf("stranger: %+v", got)
	}
}
