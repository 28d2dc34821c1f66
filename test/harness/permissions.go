package harness

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
)

// CheckPermissions compares, after all tests of a package, what the operator was granted with what it asked for: nothing was refused, and no verb of
// the capabilities' roles was granted for nothing. The second needs all tests: it is not looked at under go test -short, and with -run nothing is.
func CheckPermissions(env *cluster.Cluster, capabilities ...string) error {
	return CheckPermissionsBut(env, func(*cluster.AuditEvent) bool { return false }, capabilities...)
}

// CheckPermissionsBut is CheckPermissions where some refusals have another reason: an API server that has just begun knows no roles yet.
func CheckPermissionsBut(env *cluster.Cluster, excused func(*cluster.AuditEvent) bool, capabilities ...string) error {
	if flag.Lookup("test.run").Value.String() != "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if _, err := env.Audit().Sync(ctx); err != nil {
		return err
	}
	used, err := env.Audit().Counts(0, func(e *cluster.AuditEvent) bool {
		return e.User == User && !e.InEndingNamespace() && (e.Code != http.StatusForbidden || !excused(e))
	})
	if err != nil {
		return err
	}
	var failures []error
	for key, count := range used {
		if key.Code == http.StatusForbidden {
			failures = append(failures, fmt.Errorf("%d requests of the operator were forbidden: %+v", count, key))
		}
	}
	if !testing.Short() {
		failures = append(failures, checkUnused(ctx, env, used, capabilities))
	}
	return errors.Join(failures...)
}

// checkUnused returns an error that names each permission that the operator was granted and has not used.
func checkUnused(ctx context.Context, env *cluster.Cluster, used cluster.AuditCounts, capabilities []string) error {
	granted, err := grants(ctx, env, capabilities)
	failures := []error{err}
	for _, grant := range granted {
		if !grant.asked() && used.Total(grant.covers) == 0 {
			failures = append(failures, fmt.Errorf("the operator may %s %s.%s and never did", grant.verb, grant.resource, grant.group))
		}
	}
	return errors.Join(failures...)
}

// servedGroups are the groups of the kinds that the control plane serves: a permission for another one cannot be used.
func servedGroups(env *cluster.Cluster) (sets.Set[string], error) {
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		return nil, err
	}
	list, err := clients.Discovery().ServerGroups()
	if err != nil {
		return nil, fmt.Errorf("reading which kinds are served: %w", err)
	}
	groups := sets.New("")
	for i := range list.Groups {
		groups.Insert(list.Groups[i].Name)
	}
	return groups, nil
}

type grant struct{ verb, group, resource string }

// asked is whether the API server asks for a permission before it takes an owner reference, and that there is no request with it: whether
// Drover may delete what gets an owner, and hold up the deletion of the owner. The sandbox's server does ask, as OpenShift's, so that what is
// missing is refused. So it is with the creation by an apply patch, which is a patch in the audit log.
func (g grant) asked() bool {
	owned := []string{"nodemaintenances", "ipaddressclaims"}
	return strings.HasSuffix(g.resource, "/finalizers") || g.verb == "delete" && slices.Contains(owned, g.resource) ||
		g.verb == "create" && g.resource == "configmaps"
}

// covers reports whether the grant allows requests.
func (g grant) covers(k cluster.AuditKey) bool {
	resource := k.Resource
	if k.Subresource != "" {
		resource += "/" + k.Subresource
	}
	return k.Verb == g.verb && k.Group == g.group && resource == g.resource
}

// grants lists what the shipped roles of some capabilities give to the operator.
func grants(ctx context.Context, env *cluster.Cluster, capabilities []string) ([]grant, error) {
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		return nil, err
	}
	var rules []rbacv1.PolicyRule
	for _, capability := range capabilities {
		shipped := metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=drover,drover.dev/capability=" + capability}
		cluster, err := clients.RbacV1().ClusterRoles().List(ctx, shipped)
		if err != nil {
			return nil, err
		}
		if len(cluster.Items) == 0 {
			return nil, fmt.Errorf("no ClusterRole of %s found: the roles are not the shipped ones", capability)
		}
		for i := range cluster.Items {
			rules = append(rules, cluster.Items[i].Rules...)
		}
		roles, err := clients.RbacV1().Roles("").List(ctx, shipped)
		if err != nil {
			return nil, err
		}
		for i := range roles.Items {
			rules = append(rules, roles.Items[i].Rules...)
		}
	}
	all, err := expand(rules)
	if err != nil {
		return nil, err
	}
	served, err := servedGroups(env)
	return slices.DeleteFunc(all, func(g grant) bool { return !served.Has(g.group) }), err
}

func expand(rules []rbacv1.PolicyRule) ([]grant, error) {
	var all []grant
	for _, rule := range rules {
		if slices.Contains(slices.Concat(rule.Verbs, rule.APIGroups, rule.Resources), "*") {
			return nil, fmt.Errorf("a rule has a wildcard: %v", rule)
		}
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, grant{verb, group, resource})
				}
			}
		}
	}
	return all, nil
}
