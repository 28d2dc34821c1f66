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

	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// Names are made as the API server makes them of metadata.generateName: so many characters of it, and so many behind.
const (
	suffixLength = 5
	prefixLength = 63 - suffixLength
	// nameTries is how many names are tried that are taken already.
	nameTries = 3
)

// birth is one attempt to create a Machine.
type birth struct {
	name string
	err  error
}

// create creates Machines. What fails is tried again with a back-off of the set's own, whatever events come meanwhile.
func (p *pass) create(ctx context.Context, count int) {
	if wait := p.memory.creating.holds(p.set.Generation, p.now); wait > 0 {
		p.later(wait)
		return
	}
	names, births := p.names(count), make([]birth, count)
	tried := inBatches(count, p.options.Parallel, func(i int) bool {
		attempt := 0
		if i == 0 {
			attempt = p.memory.attempt
		}
		if births[i].err = p.unchanged(ctx); births[i].err == nil {
			births[i] = p.bear(ctx, names[i], attempt)
		}
		return births[i].err == nil
	})
	if births[0].err == nil {
		p.memory.attempt = 0
	}
	p.memory.unsure = nil
	var failed *birth
	for i := range births[:tried] {
		b := &births[i]
		switch {
		case b.err == nil:
			p.created = append(p.created, b.name)
			continue
		case errors.Is(b.err, errChanged):
			p.stale = true
			continue
		case status.Classify(b.err) == status.Transient && !errors.Is(b.err, errTaken):
			// It may have been created all the same.
			p.memory.unsure = append(p.memory.unsure, b.name)
			p.memory.unverified = true
		}
		if failed == nil {
			failed = b
		}
	}
	p.toldCreated(ctx)
	if failed != nil {
		p.barren(ctx, failed)
		return
	}
	p.memory.creating = setback{}
}

// names makes names for new Machines, those first that may be taken by Machines of ours whose creation got no answer: to try again
// under another name could make two of one.
func (p *pass) names(count int) []string {
	names := slices.DeleteFunc(slices.Clone(p.memory.unsure), func(name string) bool {
		return slices.ContainsFunc(p.machines, func(m *machinev1beta1.Machine) bool { return m.Name == name })
	})
	names = names[:min(len(names), count)]
	for len(names) < count {
		names = append(names, p.name())
	}
	return names
}

func (p *pass) name() string { return p.prefix() + p.options.Suffix() }

func (p *pass) prefix() string {
	prefix := p.set.Name + "-"
	return prefix[:min(len(prefix), prefixLength)]
}

// errTaken tells that a name is that of another Machine.
var errTaken = errors.New("the name is taken")

// bear creates one Machine, and notes it. Attempt is that of a replacement, zero for others.
func (p *pass) bear(ctx context.Context, name string, attempt int) birth {
	b := birth{name: name}
	for range nameTries {
		var machine client.Object
		machine, b.err = p.bring(ctx, b.name, attempt)
		if b.err == nil {
			p.owned.Created(string(p.set.UID), machine)
		}
		if !errors.Is(b.err, errTaken) {
			break
		}
		b.name = p.name()
	}
	p.metrics.creates.WithLabelValues(string(status.Classify(b.err))).Inc()
	return b
}

// bring creates a Machine of a name, or finds it. The name is made here, not by the API server, so that a creation that got no answer can
// be repeated.
func (p *pass) bring(ctx context.Context, name string, attempt int) (client.Object, error) {
	machine := p.machine(name)
	if attempt > 0 {
		machine.Annotations[plan.AttemptAnnotation] = strconv.Itoa(attempt)
	}
	if err := p.writer.Create(ctx, machine, FieldOwner); !apierrors.IsAlreadyExists(err) {
		return machine, err
	}
	// An earlier attempt may have made it, unless the cache knows it already.
	live, err := p.living(ctx)
	if err != nil {
		return nil, err
	}
	for i := range live {
		known := slices.ContainsFunc(p.machines, func(m *machinev1beta1.Machine) bool { return m.UID == live[i].UID })
		if live[i].Name == name && !known {
			return &live[i], nil
		}
	}
	return nil, errTaken
}

// machine is a new Machine as the template has it. Its finalizer is on it from the start: one that was deleted before the machine
// controller has seen it could leave an instance behind.
func (p *pass) machine(name string) *machinev1beta1.Machine {
	template := &p.set.Spec.Template
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: p.key.Namespace, Name: name, GenerateName: p.set.Name + "-",
			Labels: maps.Clone(template.Labels), Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{*controllerOf(p.set)}, Finalizers: []string{machinev1beta1.MachineFinalizer},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	maps.Copy(machine.Annotations, template.Annotations)
	if p.options.Adopt != nil {
		p.options.Adopt(p.set, machine)
	}
	return machine
}

// barren notes that Machines cannot be created.
func (p *pass) barren(ctx context.Context, failed *birth) {
	if apierrors.HasStatusCause(failed.err, corev1.NamespaceTerminatingCause) {
		// The set goes with its namespace, and nobody needs to hear of it.
		p.later(retryDenied)
		return
	}
	// A name that is another each time would make each failure a new one.
	failure := plan.Failure{Reason: plan.ReasonCreateError, Message: strings.ReplaceAll(failed.err.Error(), failed.name, p.set.Name+"-*")}
	if unusable(failed.err) {
		failure.Reason = plan.ReasonInvalid
	}
	p.memory.creating.failed(status.Classify(failed.err), failure, p.set.Generation, p.now)
	wait := p.until(p.memory.creating.until)
	p.later(wait)
	log.FromContext(ctx).Error(failed.err, "cannot create Machines", "times", p.memory.creating.times, "retryAfter", wait.String())
}

// unusable tells that the API server finds the Machine itself wrong.
func unusable(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

func (p *pass) toldCreated(ctx context.Context) {
	if len(p.created) == 0 {
		return
	}
	slices.Sort(p.created)
	log.FromContext(ctx).Info("created Machines", "count", len(p.created), "first", p.created[0])
	p.notices.normal(p.set, EventCreated, "created %s", machines(p.created))
}
