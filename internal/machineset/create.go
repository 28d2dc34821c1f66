package machineset

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// Names are generated as the API server does from metadata.generateName: at most prefixLength characters of it, and a suffix.
const (
	suffixLength = 5
	prefixLength = 63 - suffixLength
	// nameAttempts is how many names are tried that other Machines have already.
	nameAttempts = 3
)

// creation is one attempt to create a Machine.
type creation struct {
	name string
	// createFor is what it is created for, attempt counts replacements of failed Machines; zero means a first creation.
	createFor string
	attempt   int
	err       error
}

// createMachines creates a Machine for each value of createFor, which says what for. A failure delays the next attempt, whatever events arrive in the
// meantime.
func (rc *reconciliation) createMachines(ctx context.Context, observed *observation, createFor []string) (out outcome) {
	if delay := rc.state.creating.delay(rc.set.Generation, rc.now); delay > 0 {
		out.Requeue.In(delay)
		return out
	}
	count := len(createFor)
	names, creations := rc.names(observed, count), make([]creation, count)
	creations[0].attempt = rc.state.attempt
	tried := inBatches(count, rc.options.Parallel, func(i int) bool {
		c := &creations[i]
		c.name, c.createFor = names[i], createFor[i]
		if c.err = rc.checkUnchanged(ctx); c.err == nil {
			rc.createMachine(ctx, observed, c)
		}
		return c.err == nil
	})
	if creations[0].err == nil {
		rc.state.attempt = 0
	}
	rc.state.unanswered = nil
	var failed *creation
	for i := range creations[:tried] {
		c := &creations[i]
		switch {
		case c.err == nil:
			out.created = append(out.created, c.name)
			if c.createFor != string(machineapi.CreatedForGrowth) {
				out.replaced++
			}
			continue
		case errors.Is(c.err, errChanged):
			out.Conflict = true
			continue
		case status.Classify(c.err) == status.Transient && !errors.Is(c.err, errNameTaken):
			// The API server may have created it nevertheless.
			rc.state.unanswered = append(rc.state.unanswered, c.name)
			rc.state.unverified = true
		}
		if failed == nil {
			failed = c
		}
	}
	rc.reportCreated(ctx, out.created)
	if failed == nil {
		rc.state.creating = backoff{}
		return out
	}
	return out.and(rc.recordCreateFailure(ctx, failed))
}

// names returns names for new Machines. The names of creations that were not answered come first: a second attempt under another name could create
// two Machines instead of one.
func (rc *reconciliation) names(observed *observation, count int) []string {
	names := slices.DeleteFunc(slices.Clone(rc.state.unanswered), func(name string) bool {
		return observed.hasMachine(func(m *machinev1beta1.Machine) bool { return m.Name == name })
	})
	names = names[:min(len(names), count)]
	for len(names) < count {
		names = append(names, rc.newName())
	}
	return names
}

func (rc *reconciliation) newName() string {
	prefix := rc.set.Name + "-"
	return prefix[:min(len(prefix), prefixLength)] + rc.options.Suffix()
}

// errNameTaken is the error of a creation whose name another Machine has.
var errNameTaken = errors.New("the name is taken")

// createMachine creates one Machine and records the expectation.
func (rc *reconciliation) createMachine(ctx context.Context, observed *observation, c *creation) {
	for range nameAttempts {
		var machine client.Object
		machine, c.err = rc.createOrFind(ctx, observed, c)
		if c.err == nil {
			rc.owned.Created(string(rc.set.UID), machine)
		}
		if !errors.Is(c.err, errNameTaken) {
			break
		}
		c.name = rc.newName()
	}
	rc.metrics.creates.WithLabelValues(string(status.Classify(c.err))).Inc()
}

// createOrFind creates a Machine of a name, or finds the Machine that an earlier, unanswered creation made. Drover chooses the name, not the API
// server, so that a creation can be repeated.
func (rc *reconciliation) createOrFind(ctx context.Context, observed *observation, c *creation) (client.Object, error) {
	machine := rc.newMachine(c.name)
	machine.Annotations[machineapi.CreatedForAnnotation] = c.createFor
	if c.attempt > 0 {
		machine.Annotations[plan.AttemptAnnotation] = strconv.Itoa(c.attempt)
	}
	if err := rc.writer.Create(ctx, machine, FieldOwner); !apierrors.IsAlreadyExists(err) {
		return machine, err
	}
	live, err := rc.listLive(ctx)
	if err != nil {
		return nil, err
	}
	for i := range live {
		if live[i].Name == c.name && !observed.hasMachine(func(m *machinev1beta1.Machine) bool { return m.UID == live[i].UID }) {
			return &live[i], nil
		}
	}
	return nil, errNameTaken
}

// newMachine returns a Machine as the template describes it. It has its finalizer from the start: a Machine that is deleted before the machine
// controller has seen it could leave an instance behind.
func (rc *reconciliation) newMachine(name string) *machinev1beta1.Machine {
	template := &rc.set.Spec.Template
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rc.key.Namespace, Name: name, GenerateName: rc.set.Name + "-",
			Labels: maps.Clone(template.Labels), Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*controllerRef(rc.set)}, Finalizers: []string{machinev1beta1.MachineFinalizer},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(machine.Annotations, template.Annotations)
	// What Drover says of a Machine is not for a template to say.
	delete(machine.Annotations, machineapi.ReplacingAnnotation)
	delete(machine.Annotations, plan.AttemptAnnotation)
	machine.Annotations[machineapi.TemplateHashAnnotation] = machineapi.TemplateOf(rc.set).Hash()
	if rc.options.Adopt != nil {
		rc.options.Adopt(rc.set, machine)
	}
	return machine
}

// recordCreateFailure starts the backoff of creations; the status reports it as the condition MachinesCreated.
func (rc *reconciliation) recordCreateFailure(ctx context.Context, failed *creation) (out outcome) {
	if apierrors.HasStatusCause(failed.err, corev1.NamespaceTerminatingCause) {
		// The MachineSet is deleted with its namespace.
		out.Requeue.In(controller.RetryDenied)
		return out
	}
	// The name is another one each time, which would make each failure a new one.
	failure := plan.Failure{Reason: plan.ReasonCreateError, Message: strings.ReplaceAll(failed.err.Error(), failed.name, rc.set.Name+"-*")}
	if isInvalid(failed.err) {
		failure.Reason = plan.ReasonInvalid
	}
	rc.state.creating.fail(status.Classify(failed.err), failure, rc.set.Generation, rc.now)
	delay := rc.state.creating.until.Sub(rc.now)
	out.Requeue.In(delay)
	log.FromContext(ctx).Error(failed.err, "cannot create Machines", "failures", rc.state.creating.failures, "retryAfter", delay.String())
	return out
}

// isInvalid reports whether the API server rejects the Machine itself.
func isInvalid(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (rc *reconciliation) reportCreated(ctx context.Context, created []string) {
	if len(created) == 0 {
		return
	}
	slices.Sort(created)
	log.FromContext(ctx).Info("created Machines", "count", len(created), "first", created[0])
	rc.recorder.Eventf(rc.set, corev1.EventTypeNormal, EventCreated, "created %s", machineNames(created))
}
