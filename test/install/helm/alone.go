package helm

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// leases is the namespace of the leases of nodes.
const leases = "medik8s-leases"

// Alone is a capability that is installed alone.
type Alone struct {
	// Name is the capability's, Controllers what --controllers says.
	Name, Controllers string
	// Work has the operator do what the capability is for.
	Work func(w *harness.World)
	// Never are things that other capabilities need, and this one does not: verb, resource and group, namespace.
	Never []string
}

// Test installs the capability by the chart, has an operator work as its service account, and looks at what that was refused, and what else it may
// do.
func (a Alone) Test(t *testing.T, env *cluster.Cluster) {
	t.Helper()
	w, h := harness.NewWorld(t, env), New(t, env)
	h.Run(append([]string{"install", "drover", h.Chart, "--namespace", harness.SystemNamespace, "--create-namespace", "--set", "replicas=0"},
		Only(a.Name)...)...)
	mark := w.AuditMark()
	t.Run("work", func(t *testing.T) {
		w := harness.NewWorld(t, env)
		// The operator runs outside the cluster: the webhook's Service has no endpoints.
		if output, err := harness.Kubectl(t.Context(), env, nil, "delete", "validatingwebhookconfiguration", "drover", "--ignore-not-found"); err != nil {
			t.Fatal(err, output)
		}
		operator := w.Operator(harness.Options{Args: []string{"--controllers=" + a.Controllers}, Elect: true})
		if err := operator.Says(t.Context(), "capability "+a.Name+": running"); err != nil {
			t.Fatal(err)
		}
		a.Work(w)
	})
	NotRefused(w, mark)
	mayNoMore(t, env, "config/overlays/"+a.Name, a.Never)
	h.Run("uninstall", "drover", "--namespace", harness.SystemNamespace, "--wait")
}

// unknownOwner is part of the error of the API server for an owner of a kind whose CRD is some seconds old: it refuses that as forbidden.
const unknownOwner = "cannot find RESTMapping"

// NotRefused looks for requests of the operator that were.
func NotRefused(w *harness.World, mark cluster.AuditMark) {
	w.Helper()
	if _, err := w.Cluster.Audit().Sync(w.Context()); err != nil {
		w.Fatal(err)
	}
	counts, err := w.Cluster.Audit().Counts(mark, func(e *cluster.AuditEvent) bool {
		return e.User == harness.User && e.Code == http.StatusForbidden && !e.InEndingNamespace() && !strings.Contains(e.Message, unknownOwner)
	})
	if err != nil {
		w.Fatal(err)
	}
	for key, count := range counts {
		w.Errorf("%d requests of the operator were refused: %+v", count, key)
	}
}

// mayNoMore compares what the API server lets the service account do, beyond what any may, with what the roles in a folder of config/ say.
func mayNoMore(t *testing.T, env *cluster.Cluster, folder string, never []string) {
	t.Helper()
	own, others := clients(t, env, harness.ServiceAccount), clients(t, env, "default")
	roles := Kustomize(t, env, folder)
	for _, namespace := range []string{harness.SystemNamespace, cluster.MachineNamespace, leases, "kube-system", "default"} {
		got := allowed(t, own, namespace)
		for grant := range allowed(t, others, namespace) {
			delete(got, grant)
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(roles.Grants(t, namespace))), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("in namespace %s: %s", namespace, diff)
		}
	}
	for _, thing := range never {
		fields := append(strings.Fields(thing), "default")
		if may(t, own, fields[0], fields[1], fields[2]) {
			t.Errorf("it may %s", thing)
		}
	}
}

// clients returns the clients of a service account in Drover's namespace.
func clients(t *testing.T, env *cluster.Cluster, account string) *kubernetes.Clientset {
	t.Helper()
	as, err := env.AsServiceAccount(t.Context(), harness.SystemNamespace, account)
	if err != nil {
		t.Fatal(err)
	}
	made, err := kubernetes.NewForConfig(as)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// allowed is what an account may do in a namespace, as the API server has it.
func allowed(t *testing.T, clients *kubernetes.Clientset, namespace string) map[string]bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	answer, err := clients.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	grants := map[string]bool{}
	for _, rule := range answer.Status.ResourceRules {
		for _, grant := range Expand(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs) {
			grants[grant] = true
		}
	}
	return grants
}

// may asks the API server.
func may(t *testing.T, clients *kubernetes.Clientset, verb, what, namespace string) bool {
	t.Helper()
	what, group, _ := strings.Cut(what, ".")
	what, sub, _ := strings.Cut(what, "/")
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Group: group, Resource: what, Subresource: sub, Namespace: namespace},
	}}
	answer, err := clients.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Allowed
}
