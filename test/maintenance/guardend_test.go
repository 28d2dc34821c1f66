package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/harness"
)

// theirLabel and theirTaint are on a Node by another writer.
const theirLabel = "example.com/theirs"

var theirTaint = harness.Taint("example.com/theirs", "", corev1.TaintEffectPreferNoSchedule)

// givenUp returns a condition on a Node that its group has given up: it carries the label team as onRelease says, nothing of the guard, no record,
// and what others have set.
func givenUp(team string, theirs bool) func(*corev1.Node) error {
	return func(node *corev1.Node) error {
		if got := node.Labels["example.com/team"]; got != team {
			return fmt.Errorf("the label team is %q, want %q", got, team)
		}
		if record := node.Annotations[ownership.AnnotationGroupRecord]; record != "" {
			return fmt.Errorf("the record is %s", record)
		}
		want := ""
		if theirs {
			want = harness.Taints(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{theirTaint}}})[0]
		}
		if got := strings.Join(harness.Taints(node), " "); got != want || theirs && node.Labels[theirLabel] != "kept" {
			return fmt.Errorf("the taints are %q, want %q, the labels %v", got, want, node.Labels)
		}
		return nil
	}
}

// TestGuard_GroupIsDeleted: a group that is deleted while Pods leave for its taint leaves nothing of the guard behind: neither the temporary taint
// nor the lease. What the group has declared goes as onRelease says, what others have set stays, and Nodes of later waves are never written.
func TestGuard_GroupIsDeleted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		policy v1alpha1.ReleasePolicy
		team   string
	}{{v1alpha1.ReleaseKeep, "blue"}, {v1alpha1.ReleaseRemove, ""}} {
		t.Run(string(c.policy), func(t *testing.T) {
			s := site(t)
			members := s.AddNodes(3)
			// As long as they are not ready their budget lets none of them go.
			s.Deployment("app", harness.Pods{Replicas: 2, Ready: harness.Never, Node: members[0]})
			s.Budget("app", "app", harness.MinAvailable(1))
			s.ChangeNode(members[0], func(node *corev1.Node) {
				node.Labels[theirLabel] = "kept"
				node.Spec.Taints = append(node.Spec.Taints, theirTaint)
			})
			group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
				spec.Metadata.OnRelease = c.policy
				spec.Rollout = &v1alpha1.Rollout{FirstWave: new(int32(1)), MaxInFlight: new(intstr.FromInt32(1))}
				spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
			})
			eventuallyDedicated(s, members[0], corev1.TaintEffectNoSchedule)
			s.AwaitHolder(members[0], grouplayer.Holder)
			s.AwaitNode(members[0], "has the label", hasTeam)
			mark := s.AuditMark()
			if err := s.Client.Delete(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			s.Gone(group)
			s.AwaitNode(members[0], "is given up", givenUp(c.team, true))
			for _, later := range members[1:] {
				s.AwaitNode(later, "has never been written", givenUp("", false))
			}
			s.AwaitHolder(members[0], "")
			for _, write := range s.Writes(mark) {
				if slices.Contains(members[1:], write.Name) {
					t.Errorf("Node %s of a later wave has been written", write.Name)
				}
			}
			s.Running("app", 2, false)
		})
	}
}

// TestGuard_AnnouncementDenied: a Node on which the API server denies the temporary taint keeps its Pods, and after the timeout neither its place nor
// its lease: a NodeMaintenance that waits for the place gets it. When the API server takes the taint again, the guard comes to its end.
func TestGuard_AnnouncementDenied(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("app", harness.Pods{Replicas: 2, Node: node})
	other := s.AddNode(func(node *corev1.Node) { node.Labels["example.com/other"] = "" })
	lift := denyTaint(s, node)
	group := dedicate(s, queuedBehindGuard)
	s.AwaitHolder(node, grouplayer.Holder)
	maintenance := s.Maintain(other, nil)
	maintenance.Condition(plan.ConditionCordoned, plan.ReasonWaitingForBudget, "")
	shortTimeout(s, group)
	s.AwaitEvent("Node", node, grouplayer.EventDenied, "dedicated is not for this Node")
	s.AwaitEvent("Node", node, grouplayer.EventTimeout, "NodeGroup "+group.Name)
	// It has the place until the end of the test, so the guard gets neither place nor lease again.
	maintenance.Phase(medik8s.PhaseSucceeded)
	s.AwaitHolder(node, "")
	eventuallyDedicated(s, node)
	s.Running("app", 2, true)
	lift()
	maintenance.End()
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
	eventuallyUnreserved(s, group)
}

// denyTaint has the API server deny the taint of dedicate on a Node, and returns when it does. lift ends that.
func denyTaint(s *harness.Site, node string) (lift func()) {
	s.Helper()
	text := fmt.Sprintf(`
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: dedicated-%[1]s}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [nodes]}]
  matchConditions: [{name: node, expression: "object.metadata.name == '%[1]s'"}]
  validations:
  - expression: "!has(object.spec.taints) || !object.spec.taints.exists(t, t.key == 'example.com/dedicated')"
    message: dedicated is not for this Node
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: dedicated-%[1]s}
spec: {policyName: dedicated-%[1]s, validationActions: [Deny]}
`, node)
	if output, err := harness.Kubectl(s.Context(), s.Cluster, strings.NewReader(text), "apply", "-f", "-"); err != nil {
		s.Fatal(err, output)
	}
	lift = func() {
		s.Helper()
		// Also when the test is over.
		output, err := harness.Kubectl(context.WithoutCancel(s.Context()), s.Cluster, strings.NewReader(text), "delete", "--ignore-not-found", "-f", "-")
		if err != nil {
			s.Error(err, output)
		}
	}
	s.Cleanup(lift)
	s.Eventually("the policy is in force", func() error {
		changed := s.Node(node)
		changed.Spec.Taints = append(changed.Spec.Taints, harness.Taint("example.com/dedicated", "", corev1.TaintEffectNoSchedule))
		if err := s.Client.Update(s.Context(), changed, client.DryRunAll); !apierrors.IsInvalid(err) {
			return fmt.Errorf("the taint gives %w", err)
		}
		return nil
	})
	return lift
}

// TestGuard_Proceeds: with onTimeout Proceed the taint is set although a Pod has not left in time; the event says which, and Kubernetes deletes it.
func TestGuard_Proceeds(t *testing.T) {
	s := site(t)
	s.Force = true
	node := s.AddNode()
	// As long as they are not ready their budget lets none of them go.
	pods := s.Deployment("app", harness.Pods{Replicas: 2, Ready: harness.Never})
	s.Budget("app", "app", harness.MinAvailable(1))
	group := dedicate(s, func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{
			Timeout: &metav1.Duration{Duration: 3 * time.Second}, OnTimeout: v1alpha1.TimeoutProceed,
		}}
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	s.AwaitEvent("Node", node, grouplayer.EventPodsLost, "2 Pods that did not leave in time, regardless of their PodDisruptionBudgets")
	s.NoEvent("Node", node, grouplayer.EventTimeout)
	eventuallyDedicated(s, node, corev1.TaintEffectNoExecute)
	for i := range pods {
		s.Gone(&pods[i])
	}
	s.AwaitHolder(node, "")
	eventuallyUnreserved(s, group)
}
