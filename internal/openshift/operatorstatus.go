package openshift

import (
	"context"
	"fmt"
	"slices"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// OperatorName is the name of a ClusterOperator. OpenShift's update waits for it, because it stands for the operator that makes the Machines:
// https://github.com/openshift/api/blob/master/config/v1/types_cluster_operator.go
const OperatorName = "machine-api"

// lookAgain is how often the ClusterOperator is compared with what it should say, retry how soon after a failure.
const lookAgain, retry = 5 * time.Minute, 10 * time.Second

// The reasons of the conditions.
const (
	reasonExpected = "AsExpected"
	reasonRunning  = "Running"
)

// Report says in the ClusterOperator that the Machines are looked after, for as long as they are.
type Report struct {
	// Client reads from the API server itself, and knows the kinds of config.openshift.io.
	Client client.Client
	// Version is the version of the release to report. An update of OpenShift waits until it is the new version.
	Version string
	// Namespace is where the Machines are; empty for all.
	Namespace string
	// Clock is the source of the time; nil is the real one.
	Clock clock.Clock
}

// Run keeps the ClusterOperator as it should be until the context ends. Without that kind of object there is nothing to do.
func (r *Report) Run(ctx context.Context) error {
	if r.Clock == nil {
		r.Clock = clock.RealClock{}
	}
	for {
		wait := lookAgain
		if err := r.write(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "cannot write the ClusterOperator", "retryAfter", retry.String())
			wait = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-r.Clock.After(wait):
		}
	}
}

// write makes the ClusterOperator, if it has to be made, and its status as it should be, if it is not.
func (r *Report) write(ctx context.Context) error {
	object := &configv1.ClusterOperator{}
	err := r.Client.Get(ctx, types.NamespacedName{Name: OperatorName}, object)
	if absent(err) {
		object = &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: OperatorName}}
		if err = r.Client.Create(ctx, object); absent(err) {
			return nil // no cluster of OpenShift's
		}
	}
	if err != nil {
		return fmt.Errorf("ClusterOperator %s: %w", OperatorName, err)
	}
	before := object.DeepCopy()
	r.fill(&object.Status)
	if apiequality.Semantic.DeepEqual(before.Status, object.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, object, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("the status of ClusterOperator %s: %w", OperatorName, err)
	}
	return nil
}

// fill sets what Drover has to say; conditions of others stay.
func (r *Report) fill(status *configv1.ClusterOperatorStatus) {
	r.condition(status, configv1.OperatorAvailable, configv1.ConditionTrue, reasonRunning, "Drover makes the Machines, at version "+r.Version)
	r.condition(status, configv1.OperatorProgressing, configv1.ConditionFalse, reasonExpected, "")
	r.condition(status, configv1.OperatorDegraded, configv1.ConditionFalse, reasonExpected, "")
	r.condition(status, configv1.OperatorUpgradeable, configv1.ConditionTrue, reasonExpected, "")
	status.Versions = []configv1.OperandVersion{{Name: "operator", Version: r.Version}}
	related := []configv1.ObjectReference{{Resource: "namespaces", Name: "openshift-machine-api"}}
	for _, resource := range []string{"machinesets", "machines", "machinehealthchecks"} {
		related = append(related, configv1.ObjectReference{Group: "machine.openshift.io", Resource: resource, Namespace: r.Namespace})
	}
	status.RelatedObjects = related
}

func (r *Report) condition(
	status *configv1.ClusterOperatorStatus, kind configv1.ClusterStatusConditionType, state configv1.ConditionStatus, reason, message string,
) {
	next := configv1.ClusterOperatorStatusCondition{
		Type: kind, Status: state, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(r.Clock.Now().UTC().Truncate(time.Second)),
	}
	i := slices.IndexFunc(status.Conditions, func(c configv1.ClusterOperatorStatusCondition) bool { return c.Type == kind })
	if i < 0 {
		status.Conditions = append(status.Conditions, next)
		return
	}
	if status.Conditions[i].Status == state {
		next.LastTransitionTime = status.Conditions[i].LastTransitionTime
	}
	status.Conditions[i] = next
}
