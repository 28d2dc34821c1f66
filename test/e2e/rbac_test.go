package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// checkPermissions compares, after all tests, what the operator was granted with what it asked for: nothing was refused, and no verb
// was granted for nothing.
func checkPermissions() error {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	if _, err := env.Audit().Sync(ctx); err != nil {
		return err
	}
	used, err := env.Audit().Counts(0, func(e *cluster.AuditEvent) bool { return e.User == harness.User })
	if err != nil {
		return err
	}
	var failures []error
	for key, count := range used {
		if key.Code == 403 {
			failures = append(failures, fmt.Errorf("%d requests of the operator were forbidden: %+v", count, key))
		}
	}
	granted, err := grants(ctx)
	if err != nil {
		return err
	}
	for _, grant := range granted {
		if used.Total(func(k cluster.AuditKey) bool {
			return k.Verb == grant.verb && k.Group == grant.group && k.Resource == grant.resource
		}) == 0 {
			failures = append(failures, fmt.Errorf("the operator may %s %s.%s and never did", grant.verb, grant.resource, grant.group))
		}
	}
	return errors.Join(failures...)
}

type grant struct{ verb, group, resource string }

// grants lists what the shipped roles give to the operator.
func grants(ctx context.Context) ([]grant, error) {
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		return nil, err
	}
	role, err := clients.RbacV1().ClusterRoles().Get(ctx, "drover", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	rules := role.Rules
	roles, err := clients.RbacV1().Roles("").List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=drover"})
	if err != nil {
		return nil, err
	}
	for _, role := range roles.Items {
		rules = append(rules, role.Rules...)
	}
	if len(rules) < 7 {
		return nil, fmt.Errorf("only %d rules found: the roles are not the shipped ones", len(rules))
	}
	return expand(rules)
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
