package check

import (
	"context"
	"fmt"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// policies checks that the admission policies are there and in force.
func (s *survey) policies(ctx context.Context) {
	all, err := cmdutil.List[*admissionv1.ValidatingAdmissionPolicy](ctx, s.client, "", ours)
	if err != nil {
		s.add("policies", view.CheckWarning, "whether the admission policies are in place is unknown: %v", err)
		return
	}
	bindings, err := cmdutil.List[*admissionv1.ValidatingAdmissionPolicyBinding](ctx, s.client, "")
	if err != nil {
		s.add("policies", view.CheckWarning, "whether the admission policies are in force is unknown: %v", err)
		return
	}
	bound := sets.Set[string]{}
	for _, binding := range bindings {
		bound.Insert(binding.Spec.PolicyName)
	}
	var unbound []string
	for _, policy := range all {
		if !bound.Has(policy.Name) {
			unbound = append(unbound, policy.Name)
		}
	}
	switch {
	case len(all) == 0:
		s.add("policies", view.CheckFailed, "no ValidatingAdmissionPolicy of Drover is installed: users can do through Drover what they may not do; "+
			"install the manifests again")
	case len(unbound) > 0:
		s.add("policies", view.CheckFailed, "without a ValidatingAdmissionPolicyBinding, and so without effect: %s", strings.Join(unbound, ", "))
	default:
		s.add("policies", view.CheckOK, "%d ValidatingAdmissionPolicies with bindings", len(all))
	}
}

// webhook checks that the webhook of NodeMaintenances is there.
func (s *survey) webhook(ctx context.Context) {
	all, err := cmdutil.List[*admissionv1.ValidatingWebhookConfiguration](ctx, s.client, "", ours)
	switch {
	case err != nil:
		s.add("webhook", view.CheckWarning, "whether the webhook is in place is unknown: %v", err)
		return
	case len(all) == 0:
		s.add("webhook", view.CheckWarning, "none is installed: NodeMaintenances of nodes that do not exist are not refused")
	}
	for _, configuration := range all {
		state, text := view.CheckOK, "ValidatingWebhookConfiguration "+configuration.Name
		for i := range configuration.Webhooks {
			if hook := &configuration.Webhooks[i]; hook.ClientConfig.Service != nil && len(hook.ClientConfig.CABundle) == 0 {
				state, text = view.CheckFailed, text+": "+hook.Name+" has no caBundle yet, so the API server cannot call it"
				break
			}
		}
		s.add("webhook", state, "%s", text)
	}
}

// right is what a user needs for some commands.
type right struct {
	commands, group, resource string
	verbs                     []string
	namespaced                bool
}

var rights = []right{
	{"plan, status, explain", "", "nodes", []string{"get", "list"}, false},
	{"plan, status, explain", "machine.openshift.io", "machinesets", []string{"get", "list"}, true},
	{"plan, status, explain", "machine.openshift.io", "machines", []string{"get", "list"}, true},
	{"plan, status, rollout status", "drover.dev", "nodegroups", []string{"get", "list"}, false},
	{"rollout pause, resume, undo", "drover.dev", "nodegroups", []string{"patch"}, false},
	{"drain-status, plan --maintenance", "", "pods", []string{"list"}, false},
	{"drain-status, plan --maintenance", "policy", "poddisruptionbudgets", []string{"list"}, false},
	{"maintenance", "nodemaintenance.medik8s.io", "nodemaintenances", []string{"list", "create", "delete"}, false},
	{"upgrade status, plan", "openshift-optional.skrzypek.io", "mutexrunconfigs", []string{"list"}, false},
	{"upgrade suspend, resume, abort", "openshift-optional.skrzypek.io", "mutexrunconfigs", []string{"patch"}, false},
}

// rights checks what the user may do with the kinds that the cluster serves.
func (s *survey) rights(ctx context.Context) {
	allowed := true
	for _, right := range rights {
		if right.group != "" && !s.served.Has(right.group) {
			continue
		}
		what := authorizationv1.ResourceAttributes{Group: right.group, Resource: right.resource}
		if right.namespaced {
			what.Namespace = s.Options.Namespace()
		}
		var missing []string
		for _, what.Verb = range right.verbs {
			switch may, err := cmdutil.Allowed(ctx, s.client, what); {
			case err != nil:
				s.add("rights", view.CheckWarning, "what you may do is unknown: %v", err)
				return
			case !may:
				missing = append(missing, what.Verb)
			}
		}
		if len(missing) > 0 {
			allowed = false
			s.add("rights", view.CheckWarning, "%s: you may not %s %s", right.commands, strings.Join(missing, ", "), resourceOf(&what))
		}
	}
	if allowed {
		s.add("rights", view.CheckOK, "you may do all that the commands need")
	}
}

func resourceOf(what *authorizationv1.ResourceAttributes) string {
	text := what.Resource
	if what.Group != "" {
		text += "." + what.Group
	}
	if what.Namespace != "" {
		text += fmt.Sprintf(" in namespace %s", what.Namespace)
	}
	return text
}
