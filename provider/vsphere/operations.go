package vsphere

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// errNotRunning is the error while Drover starts or ends.
var errNotRunning = errors.New("the provider is not running")

// lookAgain is how soon a Machine is looked at again whose virtual machine is being created or deleted. The end of that wakes it.
const lookAgain = 30 * time.Second

// The delays after an operation has failed: the first one, which doubles, and the longest. Most of what fails lasts until a person mends it.
const firstRetry, lastRetry = 5 * time.Second, 5 * time.Minute

// operations are the creations and deletions under way, at most one for each Machine, and the failed ones until they are tried again. They do not
// occupy a worker of Drover. Progress is visible in the vCenter: after a crash the next operation continues from there.
type operations struct {
	changed func(uid string)
	clock   clock.PassiveClock
	// retry is the delay after the first failure.
	retry time.Duration

	mu      sync.Mutex
	ctx     context.Context
	running map[types.UID]*operation
	group   sync.WaitGroup
}

// purpose is what an operation is for.
type purpose string

const (
	creation purpose = "creation"
	deletion purpose = "deletion"
)

// operation is one of them.
type operation struct {
	purpose purpose
	// generation is the Machine's generation when the operation began.
	generation int64
	// cause is why the attempt before has failed; nil if there was none.
	cause error

	mu sync.Mutex
	// stage says what it waits for.
	stage string
	// task is the ID of the clone task.
	task string
	// note is what a user should know about the virtual machine that has been created.
	note  string
	ended bool
	err   error
	// failures are how many attempts have failed one after another, and retry is when the next one may begin. reported says that err was returned.
	failures int
	retry    time.Time
	reported bool
	// stop is closed when its Machine is to be deleted: it does not go on to the next stage.
	stop chan struct{}
	once sync.Once
}

func newOperations(changed func(string), clock clock.PassiveClock) *operations {
	return &operations{changed: changed, clock: clock, retry: firstRetry, running: map[types.UID]*operation{}}
}

// do starts an operation, or returns what state returns.
func (o *operations) do(
	machine *machinev1beta1.Machine, purpose purpose, stage string, run func(ctx context.Context, op *operation) error,
) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.stateOf(machine, purpose); err != nil {
		return err
	}
	if o.ctx == nil || o.ctx.Err() != nil {
		return errNotRunning
	}
	uid := machine.UID
	op := &operation{purpose: purpose, generation: machine.Generation, stage: stage, stop: make(chan struct{})}
	if last := o.running[uid]; last != nil && last.isFor(machine, purpose) {
		op.follow(last)
	}
	o.running[uid] = op
	ctx := o.ctx
	o.group.Go(func() {
		err := run(ctx, op)
		op.end(err, o.clock.Now(), o.retry)
		o.changed(string(uid))
	})
	return op.waiting()
}

// state returns what there is to say of the operation of a Machine: an error that asks to wait while it runs, or until it may be tried again, and
// its own error, once. It returns nil if one may begin.
func (o *operations) state(machine *machinev1beta1.Machine, purpose purpose) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.stateOf(machine, purpose)
}

func (o *operations) stateOf(machine *machinev1beta1.Machine, purpose purpose) error {
	op := o.running[machine.UID]
	if op == nil {
		return nil
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	_, waits := provider.AsRequeueAfter(op.err)
	switch {
	case !op.ended:
		return op.wait()
	case op.err == nil:
		delete(o.running, machine.UID)
		return provider.RequeueAfter(time.Second, op.stage)
	case !op.isFor(machine, purpose):
		// Its Machine has been changed or deleted since.
		return nil
	case !op.reported:
		op.reported = true
		return op.err
	case waits:
		return nil
	}
	if left := op.retry.Sub(o.clock.Now()); left > 0 {
		return provider.RetryAfter(left, op.err)
	}
	return nil
}

// stopCreation stops a creation after its present stage, and returns an error that asks to wait until the operation has ended; nil if none is
// running.
func (o *operations) stopCreation(uid types.UID) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.running[uid]
	if op == nil {
		return nil
	}
	if op.purpose == creation {
		op.once.Do(func() { close(op.stop) })
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.ended {
		delete(o.running, uid)
		return nil
	}
	return op.wait()
}

// isRunning reports whether an operation of a Machine is under way.
func (o *operations) isRunning(uid types.UID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	op := o.running[uid]
	if op == nil {
		return false
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	return !op.ended
}

// recordOf returns the task of the clone of a Machine and the note about it; empty if they are not known.
func (o *operations) recordOf(uid types.UID) (task, note string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.running[uid]; op != nil {
		op.mu.Lock()
		defer op.mu.Unlock()
		return op.task, op.note
	}
	return "", ""
}

// forget drops an operation that has ended.
func (o *operations) forget(uid types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if op := o.running[uid]; op != nil {
		op.mu.Lock()
		defer op.mu.Unlock()
		if op.ended {
			delete(o.running, uid)
		}
	}
}

// begin lets operations run until a context ends.
func (o *operations) begin(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ctx = ctx
}

// wait waits until all have ended.
func (o *operations) wait() { o.group.Wait() }

// isFor reports whether an operation is for a purpose of its Machine, as the Machine is now.
func (op *operation) isFor(machine *machinev1beta1.Machine, purpose purpose) bool {
	return op.purpose == purpose && op.generation == machine.Generation
}

// follow makes an operation the next attempt after a failed operation.
func (op *operation) follow(last *operation) {
	last.mu.Lock()
	defer last.mu.Unlock()
	op.cause, op.failures, op.task, op.note = last.err, last.failures, last.task, last.note
}

// waiting is the error while an operation runs, and wait the same with its lock held: why the attempt before has failed, or what it waits for.
func (op *operation) waiting() error {
	op.mu.Lock()
	defer op.mu.Unlock()
	return op.wait()
}

func (op *operation) wait() error {
	if op.cause != nil {
		return provider.RetryAfter(lookAgain, op.cause)
	}
	return provider.RequeueAfter(lookAgain, op.stage)
}

func (op *operation) end(err error, now time.Time, first time.Duration) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.ended, op.err = true, err
	if _, waits := provider.AsRequeueAfter(err); err == nil || waits {
		op.failures = 0
		return
	}
	op.retry = now.Add(min(first<<min(op.failures, 10), lastRetry))
	op.failures++
}

// next begins a stage, unless the operation is to stop.
func (op *operation) next(stage string) error {
	select {
	case <-op.stop:
		return provider.RequeueAfter(time.Second, "the Machine is being deleted")
	default:
	}
	op.mu.Lock()
	defer op.mu.Unlock()
	op.stage = stage
	return nil
}

// untilStopped returns a context that ends when the operation is to stop.
func (op *operation) untilStopped(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-op.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

func (op *operation) setNote(note string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.note = note
}

func (op *operation) setTask(task string) {
	op.mu.Lock()
	defer op.mu.Unlock()
	op.task = task
}

// machineNames are the names of the Machines that the provider has been asked about, by their UIDs.
type machineNames struct {
	mu    sync.Mutex
	names map[string]types.NamespacedName
	// aliases are the instance UUIDs of virtual machines whose Machines have been restored from a backup and have other UIDs since, by the UIDs.
	// names has both.
	aliases map[string]string
	// seen are the vCenters that showed the virtual machines last, by the Machines' UIDs.
	seen   map[string]*vcenter.VCenter
	report func(types.NamespacedName)
}

func newMachineNames() *machineNames {
	return &machineNames{names: map[string]types.NamespacedName{}, aliases: map[string]string{}, seen: map[string]*vcenter.VCenter{}}
}

func (m *machineNames) notify(report func(types.NamespacedName)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.report = report
}

func (m *machineNames) add(machine *machinev1beta1.Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[strings.ToLower(string(machine.UID))] = types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}
}

func (m *machineNames) remove(machine *machinev1beta1.Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid := strings.ToLower(string(machine.UID))
	delete(m.names, m.aliases[uid])
	delete(m.aliases, uid)
	delete(m.seen, uid)
	delete(m.names, uid)
}

// has reports whether the virtual machine with an instance UUID belongs to a Machine.
func (m *machineNames) has(instanceUUID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, found := m.names[strings.ToLower(instanceUUID)]
	return found
}

// setSeen records that the virtual machine of a Machine was seen in a vCenter.
func (m *machineNames) setSeen(machine *machinev1beta1.Machine, in *vcenter.VCenter, instanceUUID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, alias := strings.ToLower(string(machine.UID)), strings.ToLower(instanceUUID)
	m.seen[uid] = in
	if alias != "" && alias != uid {
		m.aliases[uid], m.names[alias] = alias, types.NamespacedName{Namespace: machine.Namespace, Name: machine.Name}
	}
}

// isSeen reports whether the virtual machine of a Machine was seen last in the vCenter with a name.
func (m *machineNames) isSeen(machine *machinev1beta1.Machine, server string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.seen[strings.ToLower(string(machine.UID))]
	return last != nil && last.Server() == server
}

// isRestored reports whether a Machine has been restored from a backup: its virtual machine has the UID that it had before.
func (m *machineNames) isRestored(machine *machinev1beta1.Machine) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.aliases[strings.ToLower(string(machine.UID))] != ""
}

// isSeenBy reports whether the virtual machine of a Machine was seen last by a vCenter's connection.
func (m *machineNames) isSeenBy(machine *machinev1beta1.Machine, by *vcenter.VCenter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[strings.ToLower(string(machine.UID))] == by
}

// changed reports that a virtual machine has changed, or what Drover does with it; an empty uid is for all of them.
func (m *machineNames) changed(uid string) {
	m.mu.Lock()
	names := map[types.NamespacedName]bool{}
	if name, found := m.names[strings.ToLower(uid)]; found {
		names[name] = true
	} else if uid == "" {
		for _, name := range m.names {
			names[name] = true
		}
	}
	report := m.report
	m.mu.Unlock()
	if report == nil {
		return
	}
	for name := range names {
		report(name)
	}
}
