package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/provider"
)

// authority tells whether the Machine is this API's to work on, and does what is to be done when it is not. On a cluster without that choice
// it always is. The words are the incumbent's.
func (p *pass) authority(ctx context.Context) (ours bool, err error) {
	authority := p.machine.Status.AuthoritativeAPI
	text := fmt.Sprintf("The AuthoritativeAPI status is set to '%s'", authority)
	switch authority {
	case "":
		if p.machine.Spec.AuthoritativeAPI == "" {
			return true, nil
		}
		return false, p.claim(ctx)
	case machinev1beta1.MachineAuthorityMachineAPI:
		p.found.paused = step{reason: reasonOurs, message: text}
		return true, nil
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		p.found.paused = step{met: true, reason: reasonAuthority, message: text}
		return false, p.standBack(ctx)
	}
	p.withdraw(p.memory)
	log.FromContext(ctx).Info("the authority over the Machine is unknown, nothing is done", "authoritativeAPI", authority)
	return false, nil
}

// claim takes the authority that the spec asks for over into the status, as the incumbent does. The rest waits for the next pass.
func (p *pass) claim(ctx context.Context) error {
	changed := p.machine.DeepCopy()
	changed.Status.AuthoritativeAPI = p.machine.Spec.AuthoritativeAPI
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Status().Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("taking the authority over Machine %s: %w", p.key, err)
	}
	p.wrote(changed)
	// The event of a write of one's own is left out.
	p.later(retryStale)
	return nil
}

// standBack leaves the Machine to another API, in the middle of a drain, too.
func (p *pass) standBack(ctx context.Context) error {
	p.withdraw(p.memory)
	if name := p.nodeName(); name != "" && p.machine.DeletionTimestamp != nil {
		if err := p.Lease.ReleaseIfHolder(ctx, name); err != nil {
			return err
		}
	}
	return p.writeStatus(ctx)
}

// live takes a Machine that is wanted as far as it goes: instance, record, Node, status.
func (p *pass) live(ctx context.Context) error {
	if p.found.phase == machinev1beta1.PhaseFailed {
		p.found.failure = failureOf(&p.machine.Status)
		p.found.ready = step{reason: reasonFailed, message: p.found.failure.message}
		return p.writeStatus(ctx)
	}
	// A Machine that no provider here serves is somebody else's: a finalizer of ours would keep it for ever.
	if _, err := p.Actuators.of(p.machine); err == nil {
		if err := p.begin(ctx); err != nil {
			return err
		}
	}
	failed := p.instance(ctx)
	if err := p.lose(ctx); err != nil {
		return err
	}
	if i := p.found.instance; i != nil {
		newborn := nodelink.ProviderID(p.machine) == "" && i.ProviderID != "" && i.State == provider.Running
		if err := p.record(ctx); err != nil {
			return err
		}
		if newborn {
			// Its Node registers in a moment, as a rule: one status then says all of it.
			p.memory.newborn = p.found.instance
			p.later(settleNewborn)
			return nil
		}
	}
	if err := p.link(ctx); err != nil {
		return err
	}
	p.settle()
	if err := p.writeStatus(ctx); err != nil {
		return err
	}
	return failed
}

// failureOf is what the status of a Failed Machine says.
func failureOf(status *machinev1beta1.MachineStatus) step {
	failure := step{reason: string(reasonMissing)}
	if status.ErrorReason != nil {
		failure.reason = string(*status.ErrorReason)
	}
	if status.ErrorMessage != nil {
		failure.message = *status.ErrorMessage
	}
	return failure
}

// begin puts the finalizer on a Machine that somebody made without one; those of a MachineSet have it from birth.
func (p *pass) begin(ctx context.Context) error {
	if slices.Contains(p.machine.Finalizers, machinev1beta1.MachineFinalizer) {
		return nil
	}
	changed := p.machine.DeepCopy()
	changed.Finalizers = append(changed.Finalizers, machinev1beta1.MachineFinalizer)
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("adding the finalizer to Machine %s: %w", p.key, err)
	}
	p.wrote(changed)
	return nil
}

// provisioned tells whether there was an instance at some time, as the incumbent does.
func provisioned(machine *machinev1beta1.Machine) bool {
	return len(machine.Status.Addresses) > 0 || nodelink.ProviderID(machine) != ""
}

// instance looks at the instance, and has it made when there is none. The error is for what may work next time, with back-off; all else is noted.
func (p *pass) instance(ctx context.Context) error {
	if newborn := p.memory.newborn; newborn != nil {
		p.memory.newborn = nil
		p.have(newborn)
		return nil
	}
	if !p.due() {
		return nil
	}
	actuator, err := p.Actuators.of(p.machine)
	if err != nil {
		reason := reasonNoProvider
		if errors.Is(err, errNoSpec) {
			reason = reasonInvalid
			p.warn(EventFailedValidate, err.Error())
		}
		p.found.exists = step{reason: reason, message: err.Error()}
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ProviderTimeout)
	defer cancel()
	instance, err := actuator.Get(ctx, p.machine)
	switch {
	case err != nil:
		return p.notSeen(err)
	case instance != nil:
		p.have(instance)
		return nil
	case provisioned(p.machine):
		p.found.phase = machinev1beta1.PhaseFailed
		p.found.failure = step{reason: string(reasonMissing), message: "can't find created instance"}
		p.found.exists = step{reason: string(reasonMissing), message: "Instance not found on provider"}
		return nil
	}
	instance, err = actuator.Create(ctx, p.machine)
	if err != nil {
		return p.notCreated(err)
	}
	p.Recorder.Event(p.machine, corev1.EventTypeNormal, EventCreate, "Created an instance for the Machine")
	log.FromContext(ctx).Info("instance made", "providerID", instance.ProviderID)
	p.have(instance)
	return nil
}

// notSeen notes that the provider could not say how the instance is, or that there can never be one.
func (p *pass) notSeen(err error) error {
	reason := provider.ReasonOf(err, machinev1beta1.UpdateMachineError)
	if reason == machinev1beta1.InvalidConfigurationMachineError && !provisioned(p.machine) {
		return p.notCreated(err)
	}
	p.found.unknown = true
	return p.refused(err, reasonProviderError, machinev1beta1.UpdateMachineError)
}

// due tells whether the instance has to be looked at. That of a Machine which runs is looked at now and then, and when its spec changes:
// most passes are for labels, Nodes and conditions, and a provider's answers cost.
func (p *pass) due() bool {
	m := p.memory
	if p.found.phase != machinev1beta1.PhaseRunning && p.found.phase != machinev1beta1.PhaseProvisioned || m.looked.IsZero() ||
		m.generation != p.machine.Generation {
		return true
	}
	next := m.looked.Add(p.options.InstanceCheck)
	if !m.again.IsZero() && m.again.Before(next) {
		next = m.again
	}
	if p.now.Before(next) {
		p.later(next.Sub(p.now))
		return false
	}
	return true
}

// have notes an instance.
func (p *pass) have(instance *provider.Instance) {
	p.found.instance, p.memory.instance = instance, instance
	p.found.exists = step{met: true}
	p.memory.looked, p.memory.again = p.now, p.now.Add(p.options.InstanceCheck)
	if instance.LookAgain > 0 {
		p.memory.again = p.now.Add(instance.LookAgain)
		p.scheduled = true
	}
	p.later(p.memory.again.Sub(p.now))
	delete(p.memory.told, EventFailedCreate)
}

// notCreated notes why there is no instance.
func (p *pass) notCreated(err error) error {
	reason := provider.ReasonOf(err, machinev1beta1.CreateMachineError)
	if reason == machinev1beta1.InvalidConfigurationMachineError {
		p.found.phase = machinev1beta1.PhaseFailed
		p.found.failure = step{reason: string(reason), message: err.Error()}
		p.found.exists = step{reason: string(reasonNotCreated), message: err.Error()}
		p.Metrics.failed("create", p.key, reason)
		p.warn(EventFailedCreate, err.Error())
		return nil
	}
	return p.refused(err, string(reasonNotCreated), machinev1beta1.CreateMachineError)
}

// refused notes an answer of the provider that may be another one next time.
func (p *pass) refused(err error, condition string, otherwise machinev1beta1.MachineStatusError) error {
	p.found.exists = step{reason: condition, message: err.Error()}
	if wait, only := provider.AsRequeueAfter(err); only {
		p.laterByProvider(wait)
		return nil
	}
	operation, event := "create", EventFailedCreate
	if otherwise == machinev1beta1.UpdateMachineError {
		operation, event = "update", EventFailedUpdate
	}
	p.Metrics.failed(operation, p.key, provider.ReasonOf(err, otherwise))
	p.warn(event, err.Error())
	return &providerError{p.key, err}
}

// record puts on the Machine what the provider says that belongs into its spec and metadata, in one patch. It comes before the status: an
// instance whose providerID is not recorded would be looked for by name alone.
func (p *pass) record(ctx context.Context) error {
	i := p.found.instance
	changed := p.machine.DeepCopy()
	if i.ProviderID != "" && nodelink.ProviderID(changed) == "" {
		changed.Spec.ProviderID = &i.ProviderID
	}
	for key, value := range map[string]string{LabelType: i.Type, LabelRegion: i.Region, LabelZone: i.Zone} {
		put(&changed.Labels, key, value)
	}
	put(&changed.Annotations, AnnotationInstanceState, string(i.State))
	if _, named := changed.Labels[LabelCluster]; !named && nodelink.ProviderID(p.machine) == "" {
		put(&changed.Labels, LabelCluster, p.options.Cluster)
	}
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if same(p.machine, changed) {
		p.memory.generation = p.machine.Generation
		return nil
	}
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("recording the instance of Machine %s: %w", p.key, err)
	}
	p.wrote(changed)
	p.memory.generation = changed.Generation
	return nil
}

// lose says in the column State that nobody knows any more how the instance is, before the Machine is Failed for good.
func (p *pass) lose(ctx context.Context) error {
	if p.found.phase != machinev1beta1.PhaseFailed {
		return nil
	}
	changed := p.machine.DeepCopy()
	put(&changed.Annotations, AnnotationInstanceState, string(provider.Unknown))
	if same(p.machine, changed) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("recording that the instance of Machine %s is lost: %w", p.key, err)
	}
	p.wrote(changed)
	return nil
}

func put(entries *map[string]string, key, value string) {
	if value == "" {
		return
	}
	if *entries == nil {
		*entries = map[string]string{}
	}
	(*entries)[key] = value
}

// same tells whether nothing of what record writes has changed.
func same(a, b *machinev1beta1.Machine) bool {
	for _, key := range []string{LabelType, LabelRegion, LabelZone, LabelCluster} {
		if a.Labels[key] != b.Labels[key] {
			return false
		}
	}
	return a.Annotations[AnnotationInstanceState] == b.Annotations[AnnotationInstanceState] &&
		nodelink.ProviderID(a) == nodelink.ProviderID(b)
}

// known is the Machine with what the provider has said of it in this pass.
func (p *pass) known() *machinev1beta1.Machine {
	i := p.found.instance
	if i == nil {
		return p.machine
	}
	seen := p.machine.DeepCopy()
	if len(i.Addresses) > 0 {
		seen.Status.Addresses = i.Addresses
	}
	if nodelink.ProviderID(seen) == "" && i.ProviderID != "" {
		seen.Spec.ProviderID = &i.ProviderID
	}
	return seen
}

// settle draws the conclusion: the phase, and whether the Machine is ready.
func (p *pass) settle() {
	f := &p.found
	there := provisioned(p.known())
	referred := f.linked || p.machine.Status.NodeRef != nil && !f.unlinked
	switch {
	case f.phase == machinev1beta1.PhaseFailed:
		f.ready = step{reason: reasonFailed, message: f.failure.message}
		return
	case !there:
		f.phase = machinev1beta1.PhaseProvisioning
	case !referred:
		f.phase = machinev1beta1.PhaseProvisioned
	default:
		f.phase = machinev1beta1.PhaseRunning
	}
	if f.phase != machinev1beta1.PhaseRunning && !p.scheduled {
		p.later(retryInstance)
	}
	if f.ready.reason == "" {
		f.ready = p.readiness()
	}
}

func (p *pass) readiness() step {
	f := &p.found
	switch {
	case f.phase == machinev1beta1.PhaseProvisioning:
		return step{reason: reasonProvisioning, message: f.exists.message}
	case f.phase == machinev1beta1.PhaseProvisioned:
		return step{reason: reasonProvisioned, message: "the instance is there, its Node has not registered yet"}
	case f.node == nil:
		return step{reason: reasonNodeGone, message: fmt.Sprintf("Node %s is gone", p.machine.Status.NodeRef.Name)}
	case !nodeReady(f.node):
		return step{reason: reasonNotReady, message: fmt.Sprintf("Node %s is not Ready", f.node.Name)}
	}
	return step{met: true}
}

func nodeReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}
