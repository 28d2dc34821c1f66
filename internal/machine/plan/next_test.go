package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/provider"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newInput returns the input of a Machine that has just been created, with changes.
func newInput(changes ...func(*Input)) *Input {
	in := &Input{
		Machine: &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "machines", Name: "m", UID: "uid", Generation: 1, Finalizers: []string{machinev1beta1.MachineFinalizer},
		}},
		State: &State{}, Settings: &Settings{InstanceCheck: 10 * time.Minute, VolumeDetachTimeout: time.Minute}, Now: now,
	}
	for _, change := range changes {
		change(in)
	}
	return in
}

func newInstance() *provider.Instance {
	return &provider.Instance{ProviderID: "cloud:///m", State: provider.Running}
}

func newNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "node"}, Spec: corev1.NodeSpec{ProviderID: "cloud:///m"}}
}

// withRunning makes the Machine run, with a known Node.
func withRunning(in *Input) {
	in.Machine.Spec.ProviderID = new("cloud:///m")
	in.Machine.Annotations = map[string]string{AnnotationInstanceState: "Running"}
	in.Machine.Status = machinev1beta1.MachineStatus{
		Phase: new(machinev1beta1.PhaseRunning), NodeRef: &corev1.ObjectReference{Name: "m", UID: "node"},
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
	}
	in.State.NextGet, in.State.Generation, in.State.Instance = now.Add(time.Minute), 1, newInstance()
}

// withDeletion deletes a running Machine whose Node has been found.
func withDeletion(in *Input) {
	withRunning(in)
	at := metav1.NewTime(now)
	in.Machine.DeletionTimestamp = &at
	in.Link = Link{Searched: true, Node: newNode(), Linked: true}
}

// withDrained is withDeletion after the drain.
func withDrained(in *Input) {
	withDeletion(in)
	in.State.Drained = true
	in.Lease = Lease{Asked: true, RenewIn: time.Hour}
}

// withDeleted is withDrained after the provider has confirmed that the instance is gone.
func withDeleted(in *Input) {
	withDrained(in)
	in.Delete, in.Confirm = Answer{Asked: true}, Answer{Asked: true}
}

func held() *nodelease.AlreadyHeldError {
	return &nodelease.AlreadyHeldError{Node: "m", Holder: "another", Until: now.Add(20 * time.Second)}
}

func hook() []machinev1beta1.LifecycleHook {
	return []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
}

// render returns a step as text: the action, and for a Stop the condition with its reason, the event, and the next attempt.
func render(step Step) string {
	if step.Action != Stop {
		return strings.TrimSpace(string(step.Action) + " " + step.Drained.Reason + step.Event.Reason)
	}
	wait := step.Wait
	text := "Stop"
	if wait.Type != "" {
		text += fmt.Sprintf(" %s=%s/%s", wait.Type, wait.Status, wait.Reason)
	}
	if wait.Event.Reason != "" {
		text += " event " + wait.Event.Reason
	}
	if wait.RequeueAfter > 0 {
		text += " retry " + wait.RequeueAfter.String()
	}
	for _, part := range []struct {
		text string
		set  bool
	}{{" backoff", wait.Err != nil}, {" quiet", wait.Quiet}, {" evicting", wait.Evicting}} {
		if part.set {
			text += part.text
		}
	}
	return text
}

// stepCase is a row of the table: what is known of a Machine, and the next step.
type stepCase struct {
	in   *Input
	want string
}

func testSteps(t *testing.T, cases map[string]stepCase) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := render(Next(c.in)); got != c.want {
				t.Errorf("the next step is %q, want %q", got, c.want)
			}
		})
	}
}

func TestNext_Authority(t *testing.T) {
	status := func(authority machinev1beta1.MachineAuthority) func(*Input) {
		return func(in *Input) { in.Machine.Status.AuthoritativeAPI = authority }
	}
	spec := func(in *Input) { in.Machine.Spec.AuthoritativeAPI = machinev1beta1.MachineAuthorityMachineAPI }
	testSteps(t, map[string]stepCase{
		"neither field":      {newInput(), "GetInstance"},
		"spec only":          {newInput(spec), "InitializeAuthority"},
		"has been set":       {newInput(spec, func(in *Input) { in.AuthorityInitialized = true }), "Stop retry 100ms quiet"},
		"Machine API":        {newInput(status(machinev1beta1.MachineAuthorityMachineAPI)), "GetInstance"},
		"Cluster API":        {newInput(status(machinev1beta1.MachineAuthorityClusterAPI)), "Stop"},
		"Migrating":          {newInput(status(machinev1beta1.MachineAuthorityMigrating)), "Stop"},
		"unknown":            {newInput(status("New")), "Stop quiet"},
		"migrates, drains":   {newInput(withDeletion, status("Migrating"), func(in *Input) { in.State.Draining = "m" }), "StopEvictions"},
		"migrates, drained":  {newInput(withDeletion, status("Migrating")), "ReleaseLease"},
		"migrates, released": {newInput(withDeletion, status("Migrating"), func(in *Input) { in.LeaseReleased = true }), "Stop"},
		"paused": {newInput(func(in *Input) { in.Machine.Annotations = map[string]string{paused.Annotation: ""} }),
			"Stop Ready=False/Paused"},
		"a step has failed": {newInput(func(in *Input) { in.Failed = errors.New("no") }), "Stop backoff quiet evicting"},
		"the same, deleted": {newInput(withDeletion, func(in *Input) { in.Failed = errors.New("no") }), "Stop backoff evicting"},
	})
}

func TestNext_Provision(t *testing.T) {
	invalid, busy, broken := provider.InvalidConfiguration("no image"), provider.RequeueAfter(7*time.Second, "busy"), errors.New("broken")
	get := func(instance *provider.Instance, err error) func(*Input) {
		return func(in *Input) { in.Get = Answer{Asked: true, Instance: instance, Err: err} }
	}
	create := func(instance *provider.Instance, err error) func(*Input) {
		return func(in *Input) {
			in.Get, in.Create = Answer{Asked: true}, Answer{Asked: true, Instance: instance, Err: err}
		}
	}
	lost := func(in *Input) { in.Machine.Annotations = map[string]string{AnnotationInstanceState: "Unknown"} }
	searched := func(in *Input) { in.Link.Searched = true }
	slow := newInstance()
	slow.LookAgain = 7 * time.Minute
	testSteps(t, map[string]stepCase{
		"no finalizer":             {newInput(func(in *Input) { in.Machine.Finalizers = nil }), "AddFinalizer"},
		"no finalizer, not served": {newInput(func(in *Input) { in.Machine.Finalizers, in.Unserved = nil, broken }), "FindNode"},
		"not served":               {newInput(searched, func(in *Input) { in.Unserved = broken }), "Stop retry 30s"},
		"no providerSpec": {newInput(searched, func(in *Input) { in.Unserved = ErrNoSpec }),
			"Stop event FailedValidate retry 30s"},
		"new":         {newInput(), "GetInstance"},
		"no instance": {newInput(get(nil, nil)), "CreateInstance"},
		"created":     {newInput(create(newInstance(), nil)), "RecordInstance"},
		"found":       {newInput(get(newInstance(), nil)), "RecordInstance"},
		"recorded, about to register": {newInput(withRunning, get(newInstance(), nil), func(in *Input) { in.AwaitsNode = true }),
			"Stop retry 2s quiet"},
		"recorded":       {newInput(withRunning, get(newInstance(), nil)), "FindNode"},
		"invalid at get": {newInput(get(nil, invalid)), "RecordInstance"},
		"invalid at get, recorded": {newInput(searched, lost, get(nil, invalid)),
			"Stop InstanceExists=False/InstanceNotCreated event FailedCreate"},
		"invalid at create": {newInput(searched, lost, create(nil, invalid)),
			"Stop InstanceExists=False/InstanceNotCreated event FailedCreate"},
		"create fails": {newInput(searched, create(nil, broken)),
			"Stop InstanceExists=False/InstanceNotCreated event FailedCreate retry 30s backoff"},
		"create takes its time": {newInput(searched, create(nil, busy)), "Stop InstanceExists=False/InstanceNotCreated retry 7s"},
		"get fails": {newInput(searched, get(nil, broken)),
			"Stop InstanceExists=Unknown/ErrorCheckingProvider event FailedUpdate retry 30s backoff"},
		"running, get fails":           {newInput(withRunning, get(nil, invalid)), "FindNode"},
		"running":                      {newInput(withRunning, searched), "Stop retry 1m0s"},
		"running, get is due":          {newInput(withRunning, func(in *Input) { in.State.NextGet = now }), "GetInstance"},
		"running, another generation":  {newInput(withRunning, func(in *Input) { in.Machine.Generation = 2 }), "GetInstance"},
		"running, instance missing":    {newInput(withRunning, get(nil, nil)), "RecordInstance"},
		"running, missing is recorded": {newInput(withRunning, searched, get(nil, nil), lost), "Stop"},
		"failed":                       {newInput(func(in *Input) { in.Machine.Status.Phase = new(machinev1beta1.PhaseFailed) }), "Stop"},
		"provider schedules": {newInput(searched, get(slow, nil), func(in *Input) {
			in.Machine.Spec.ProviderID, in.Machine.Annotations = new("cloud:///m"), map[string]string{AnnotationInstanceState: "Running"}
			in.State.NextGet = now.Add(slow.LookAgain)
		}), "Stop retry 7m0s"},
		"provider schedules, that time has passed": {newInput(searched, get(slow, nil), func(in *Input) {
			in.Machine.Spec.ProviderID, in.Machine.Annotations = new("cloud:///m"), map[string]string{AnnotationInstanceState: "Running"}
			in.State.NextGet = now.Add(-time.Millisecond)
		}), "Stop retry 1ms"},
	})
}

// TestNext_InvalidLabels: what is no value for a label must not keep the providerID from being recorded, nor be recorded again and again.
func TestNext_InvalidLabels(t *testing.T) {
	in := newInput(func(in *Input) {
		instance := newInstance()
		instance.Type, instance.Region, instance.Zone = "m5", "New York", strings.Repeat("z", 64)
		in.Get = Answer{Asked: true, Instance: instance}
	})
	step := Next(in)
	if step.Action != RecordInstance || len(step.Machine.Labels) != 1 || step.Machine.Labels[LabelType] != "m5" ||
		step.Machine.Spec.ProviderID == nil {
		t.Fatalf("the next step is %s, with labels %v", step.Action, step.Machine.Labels)
	}
	in.Machine = step.Machine
	if step := Next(in); step.Action == RecordInstance {
		t.Error("it is recorded again")
	}
}

func TestNext_Drain(t *testing.T) {
	cordoned := func(in *Input) {
		in.Cordon = Cordon{Tried: true, Record: &drain.CordonRecord{Since: now}}
		in.Lease = Lease{Asked: true, RenewIn: time.Hour}
	}
	blocked := func(wait *Wait) func(*Input) {
		return func(in *Input) { in.Cordon = Cordon{Tried: true, Blocked: wait} }
	}
	pods := func(left ...drain.RemainingPod) func(*Input) {
		return func(in *Input) { in.Pods = &drain.Report{Remaining: left, Wake: now.Add(time.Minute)} }
	}
	timeout := func(text string) func(*Input) {
		return func(in *Input) { in.Machine.Annotations[AnnotationDrainTimeout] = text }
	}
	late := func(in *Input) { in.Now = now.Add(5 * time.Minute) }
	down := func(answer Answer) func(*Input) {
		return func(in *Input) {
			in.Link.Node = in.Link.Node.DeepCopy()
			in.Link.Node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
			in.Get = answer
		}
	}
	left := pods(drain.RemainingPod{})
	noNode := func(in *Input) { in.Link, in.Machine.Status.NodeRef = Link{Searched: true}, nil }
	nodeGone := func(in *Input) { in.Link = Link{Searched: true} }
	ambiguous := func(in *Input) { in.Link = Link{Searched: true, Conflict: "two Nodes"} }
	excluded := func(in *Input) { in.Machine.Annotations[AnnotationExclude] = "" }
	hooked := func(in *Input) { in.Machine.Spec.LifecycleHooks.PreDrain = hook() }
	denied := CordonDenied(ReasonDenied, errors.New("policy"))
	testSteps(t, map[string]stepCase{
		"no Node":  {newInput(withDeletion, noNode), "EndDrain DrainSkipped"},
		"excluded": {newInput(withDeletion, excluded, hooked), "EndDrain DrainSkipped"},
		"hook":     {newInput(withDeletion, hooked), "Stop event DrainBlocked"},
		"ambiguous Node": {newInput(withDeletion, ambiguous),
			"Stop Drained=False/NodeLinkConflict event DrainRequeued retry 1m0s"},
		"ambiguous Node, timeout is near": {newInput(withDeletion, ambiguous, timeout("5s")),
			"Stop Drained=False/NodeLinkConflict event DrainRequeued retry 5s"},
		"ambiguous Node, timed out": {newInput(withDeletion, ambiguous, timeout("5m"), late), "EndDrain DrainTimeoutDrainRequeued"},
		"Node is gone":              {newInput(withDeletion, nodeGone), "CordonNode"},
		"Node is gone, spared":      {newInput(withDeletion, nodeGone, blocked(nil)), "EndDrain DrainSucceeded"},
		"Node":                      {newInput(withDeletion), "CordonNode"},
		"quorum": {newInput(withDeletion, blocked(QuorumBlocked("needed", nil))),
			"Stop Drained=False/ControlPlaneQuorum event DrainRequeued retry 5s"},
		"quorum outlasts the timeout": {newInput(withDeletion, blocked(QuorumBlocked("needed", nil)), timeout("5m"), late),
			"Stop Drained=False/ControlPlaneQuorum event DrainRequeued retry 5s"},
		"quorum unknown": {newInput(withDeletion, blocked(QuorumBlocked("", errors.New("RBAC"))), timeout("5m"), late),
			"Stop Drained=False/ControlPlaneQuorumUnknown event DrainRequeued retry 1m0s"},
		"lease held": {newInput(withDeletion, blocked(LeaseBlocked(held(), now))),
			"Stop Drained=False/LeaseHeldByOther event DrainRequeued retry 20s"},
		"denied": {newInput(withDeletion, blocked(denied)),
			"Stop Drained=False/Denied event DrainRequeued retry 1m0s"},
		"denied, timeout is near": {newInput(withDeletion, blocked(denied), timeout("5s")),
			"Stop Drained=False/Denied event DrainRequeued retry 5s"},
		"denied, timed out": {newInput(withDeletion, blocked(denied), timeout("5m"), late), "EndDrain DrainTimeoutDrainRequeued"},
		"no timeout": {newInput(withDeletion, blocked(denied), timeout("0s"), late),
			"Stop Drained=False/Denied event DrainRequeued retry 1m0s"},
		"cordoned": {newInput(withDeletion, cordoned), "EvictPods"},
		"pods are left": {newInput(withDeletion, cordoned, pods(drain.RemainingPod{})),
			"Stop Drained=False/Draining event DrainProceeds retry 1m0s evicting"},
		"Node is down":                       {newInput(withDeletion, cordoned, left, down(Answer{})), "GetInstance"},
		"Node is down, the instance is gone": {newInput(withDeletion, cordoned, left, down(Answer{Asked: true})), "EndDrain DrainSucceeded"},
		"Node is down, the instance is off": {newInput(withDeletion, cordoned, left, down(Answer{Asked: true,
			Instance: &provider.Instance{State: provider.Stopped}})), "EndDrain DrainSucceeded"},
		"Node is down, the instance is off in words of the provider": {newInput(withDeletion, cordoned, left, down(Answer{Asked: true,
			Instance: &provider.Instance{State: "poweredOff", Off: true}})), "EndDrain DrainSucceeded"},
		"Node is down, the instance is off, a volume is attached": {newInput(withDeletion, cordoned, pods(drain.RemainingPod{HasVolume: true}),
			down(Answer{Asked: true, Instance: &provider.Instance{Off: true}})), "Stop Drained=False/Draining event DrainProceeds retry 1m0s evicting"},
		"Node is down, the instance runs": {newInput(withDeletion, cordoned, left, down(Answer{Asked: true, Instance: &provider.Instance{}})),
			"Stop Drained=False/Draining event DrainProceeds retry 1m0s evicting"},
		"Node is down, the provider does not answer": {newInput(withDeletion, cordoned, left, down(Answer{Asked: true, Err: errors.New("down")})),
			"Stop Drained=False/Draining event DrainProceeds retry 1m0s evicting"},
		"pods are left, timed out": {newInput(withDeletion, cordoned, pods(drain.RemainingPod{}), timeout("5m"), late),
			"EndDrain DrainTimeoutDrainRequeued"},
		"no pods are left": {newInput(withDeletion, cordoned, pods()), "EndDrain DrainSucceeded"},
		"drained": {newInput(withDeletion, func(in *Input) {
			in.Machine.Status.Conditions = []machinev1beta1.Condition{{Type: ConditionDrained, Status: corev1.ConditionTrue}}
		}), "RenewLease"},
		"timed out, still evicting": {newInput(withDeletion, func(in *Input) { in.Drained, in.State.Draining = &Condition{}, "m" }),
			"StopEvictions"},
	})
}

func TestNext_Delete(t *testing.T) {
	invalid, busy, broken := provider.InvalidConfiguration("no image"), provider.RequeueAfter(7*time.Second, "busy"), errors.New("broken")
	noAddresses := func(in *Input) {
		in.Machine.Status.Addresses = nil
		in.Get = Answer{Asked: true, Err: invalid}
	}
	kept := func(in *Input) { in.Machine.Finalizers = append(in.Machine.Finalizers, "example.com/backup") }
	del := func(err error) func(*Input) { return func(in *Input) { in.Delete = Answer{Asked: true, Err: err} } }
	confirm := func(instance *provider.Instance, err error) func(*Input) {
		return func(in *Input) {
			in.Delete, in.Confirm = Answer{Asked: true}, Answer{Asked: true, Instance: instance, Err: err}
		}
	}
	deletedAgo := func(ago time.Duration) func(*Input) {
		return func(in *Input) { in.State.DeletedAt = now.Add(-ago) }
	}
	node := func(deletion NodeDeletion) func(*Input) {
		deletion.Tried = true
		return func(in *Input) { in.NodeDeletion, in.State.NodeFailedAt = deletion, now }
	}
	lost := func(in *Input) { in.Lease.Held = held() }
	timedOut := func(in *Input) { in.Machine.Annotations[AnnotationDrainTimeout], in.Now = "5m", now.Add(5*time.Minute) }
	deleting := func(in *Input) { in.Machine.Status.Phase = new(machinev1beta1.PhaseDeleting) }
	unserved := func(in *Input) { in.Unserved = broken }
	nodeTimeout := func(in *Input) {
		in.Machine.Annotations[AnnotationNodeDeletionTimeout], in.Now = "1m", now.Add(time.Minute)
	}
	testSteps(t, map[string]stepCase{
		"finalizer is removed": {newInput(withDeletion, func(in *Input) { in.Machine.Finalizers = []string{"example.com/backup"} }),
			"Stop quiet"},
		"cache shows the finalizer": {newInput(withDeletion, func(in *Input) { in.State.Finished = true }), "Stop quiet"},
		"kept by others":            {newInput(withDeletion, kept), "SaveStatus"},
		"instance is not known":     {newInput(withDeletion, func(in *Input) { in.Machine.Spec.ProviderID = nil }), "GetInstance"},
		"addresses are not known":   {newInput(withDeletion, func(in *Input) { in.Machine.Status.Addresses = nil }), "GetInstance"},
		"Node is not proven": {newInput(withDeletion, func(in *Input) { in.Machine.Status.NodeRef, in.State.Instance = nil, nil }),
			"GetInstance"},
		"Node that has registered anew is not proven": {newInput(withDeletion, func(in *Input) {
			in.State.Instance, in.Link = nil, Link{Searched: true, Refused: "not known"}
		}), "GetInstance"},
		"get fails": {newInput(withDeletion, func(in *Input) { in.Get = Answer{Asked: true, Err: broken} }),
			"Stop InstanceExists=Unknown/ErrorCheckingProvider event FailedUpdate backoff"},
		"get takes its time": {newInput(withDeletion, func(in *Input) { in.Get = Answer{Asked: true, Err: busy} }),
			"Stop InstanceExists=Unknown/ErrorCheckingProvider retry 7s"},
		"get is invalid":                {newInput(withDrained, noAddresses), "DeleteInstance"},
		"Node is not searched":          {newInput(withDeletion, func(in *Input) { in.Link = Link{} }), "FindNode"},
		"lease is lost after the drain": {newInput(withDrained, lost), "Stop Ready=False/LeaseHeldByOther event DrainRequeued retry 20s"},
		"lease is lost, timed out":      {newInput(withDrained, lost, timedOut), "DeleteInstance"},
		"hook": {newInput(withDrained, func(in *Input) { in.Machine.Spec.LifecycleHooks.PreTerminate = hook() }),
			"Stop"},
		"nodeRef is not written": {newInput(withDrained, func(in *Input) { in.Machine.Status.NodeRef = nil }), "SaveStatus"},
		"not served":             {newInput(withDrained, unserved), "Stop InstanceExists=False/NoProvider retry 1m0s"},
		"not served, never provisioned": {newInput(withDrained, unserved, func(in *Input) { in.Machine.Spec.ProviderID = nil }, noAddresses),
			"DeleteNode"},
		"drained":                         {newInput(withDrained), "DeleteInstance"},
		"delete fails":                    {newInput(withDrained, del(broken)), "Stop InstanceExists=True/ event FailedDelete backoff"},
		"delete takes its time":           {newInput(withDrained, del(busy)), "Stop InstanceExists=True/ retry 7s"},
		"delete is invalid":               {newInput(withDrained, del(invalid)), "Stop InstanceExists=True/ event FailedDelete backoff"},
		"delete is invalid, no addresses": {newInput(withDrained, del(invalid), noAddresses), "DeleteNode"},
		"deleted":                         {newInput(withDrained, del(nil)), "ConfirmDeletion"},
		"a moment ago":                    {newInput(withDrained, deletedAgo(time.Second)), "ConfirmDeletion"},
		"some time ago":                   {newInput(withDrained, deletedAgo(5*time.Second)), "DeleteInstance"},
		"instance is still there": {newInput(withDrained, confirm(newInstance(), nil), deletedAgo(0)),
			"Stop InstanceExists=True/ retry 5s quiet"},
		"it stays": {newInput(withDrained, confirm(newInstance(), nil), deletedAgo(time.Minute)),
			"Stop InstanceExists=True/ retry 30s"},
		"confirmation fails": {newInput(withDrained, confirm(nil, broken)),
			"Stop InstanceExists=Unknown/ErrorCheckingProvider event FailedUpdate backoff"},
		"confirmation is invalid": {newInput(withDrained, confirm(nil, invalid)),
			"Stop InstanceExists=Unknown/ErrorCheckingProvider event FailedUpdate backoff"},
		"the same, no addresses": {newInput(withDrained, confirm(nil, invalid), noAddresses), "DeleteNode"},
		"instance is gone":       {newInput(withDeleted), "DeleteNode"},
		"Node registered anew":   {newInput(withDeleted, node(NodeDeletion{Stale: true})), "Stop retry 100ms"},
		"Node cannot be deleted": {newInput(withDeleted, node(NodeDeletion{Node: newNode(), Err: broken})), "Stop backoff"},
		"the same, in time": {newInput(withDeleted, node(NodeDeletion{Node: newNode(), Err: broken}), nodeTimeout),
			"ReleaseLease"},
		"Node is kept": {newInput(withDeleted, node(NodeDeletion{Node: newNode(), Err: broken}), nodeTimeout, func(in *Input) { in.LeaseReleased = true }),
			"RemoveFinalizer"},
		"Node is gone": {newInput(withDeleted, node(NodeDeletion{})), "RemoveFinalizer"},
		"Node is gone, kept by others": {newInput(withDeleted, kept, node(NodeDeletion{}), deleting),
			"SaveStatus"},
	})
}

// What takes longest to wait for may need the shortest retry: the renewal of the lease.
func TestNextAttempt_RenewalOfTheLease(t *testing.T) {
	for _, c := range []struct{ retry, renew, want time.Duration }{
		{0, 0, 0}, {time.Minute, 0, time.Minute}, {0, time.Hour, time.Hour}, {time.Minute, time.Second, time.Second},
		{time.Second, time.Minute, time.Second},
	} {
		in := newInput(func(in *Input) { in.Lease.RenewIn = c.renew })
		if got := RequeueAfter(in, &Wait{RequeueAfter: c.retry}); got != c.want {
			t.Errorf("retry %s, renewal %s: %s, want %s", c.retry, c.renew, got, c.want)
		}
	}
}

// A provider that wants to be asked at once does not keep a worker busy; a longer delay is the provider's.
func TestProviderWait_LeastDelay(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		-time.Hour: minProviderRetry, 0: minProviderRetry, time.Millisecond: minProviderRetry, 7 * time.Second: 7 * time.Second,
	} {
		for _, call := range []operation{operationCreate, operationGet, operationDelete} {
			if got := newInput().providerWait(call, provider.RequeueAfter(asked, "busy")).RequeueAfter; got != want {
				t.Errorf("%s asks for %s: again in %s, want %s", call.name, asked, got, want)
			}
		}
	}
}
