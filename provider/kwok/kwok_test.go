package kwok

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
)

func machineOf(t *testing.T, name string, spec ProviderSpec) *machinev1beta1.Machine {
	t.Helper()
	machine := conformance.NewMachine(name)
	spec.TypeMeta = metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kindSpec}
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: text}
	return machine
}

func TestConformance(t *testing.T) {
	nodes := fake.NewClientBuilder().Build()
	conformance.Run(t, conformance.Subject{
		Actuator: NewActuator(nodes, clock.RealClock{}),
		Machine:  func(t *testing.T, name string) *machinev1beta1.Machine { return machineOf(t, name, ProviderSpec{}) },
		Invalid: func(t *testing.T, name string) *machinev1beta1.Machine {
			machine := machineOf(t, name, ProviderSpec{})
			machine.Spec.ProviderSpec.Value.Raw = []byte(`{"bootDelai":"1s"}`)
			return machine
		},
		Sized: func(t *testing.T) *machinev1beta1.Machine {
			return machineOf(t, "sized", ProviderSpec{
				Capacity: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), "nvidia.com/gpu": resource.MustParse("2"),
				},
				InstanceType: "medium", Zone: "zone-a", Labels: map[string]string{"example.com/a": "b"},
				Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}},
			})
		},
		Capacity: &provider.Capacity{
			Resources: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("16Gi"), "nvidia.com/gpu": resource.MustParse("2"),
			},
			GPU: provider.GPU{Type: "nvidia.com/gpu", Count: 2},
			Labels: map[string]string{
				corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux", corev1.LabelInstanceTypeStable: "medium",
				corev1.LabelTopologyZone: "zone-a", "example.com/a": "b",
			},
			Taints: []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}},
		},
		Lose: func(t *testing.T, machine *machinev1beta1.Machine) {
			vanishes := ProviderSpec{Failure: Failure{VanishesAfter: metav1.Duration{Duration: time.Nanosecond}}}
			machine.Spec.ProviderSpec = machineOf(t, machine.Name, vanishes).Spec.ProviderSpec
		},
		Count: func(t *testing.T, machine *machinev1beta1.Machine) int {
			err := nodes.Get(t.Context(), types.NamespacedName{Name: machine.Name}, &corev1.Node{})
			if apierrors.IsNotFound(err) {
				return 0
			}
			if err != nil {
				t.Fatal(err)
			}
			return 1
		},
	})
}

// stage is an actuator on a client in memory, with a clock of its own.
type stage struct {
	*Actuator
	t     *testing.T
	clock *testclock.FakePassiveClock
}

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	clk := testclock.NewFakePassiveClock(start)
	return &stage{Actuator: NewActuator(fake.NewClientBuilder().WithObjects(objects...).Build(), clk), t: t, clock: clk}
}

func (s *stage) after(d time.Duration) { s.clock.SetTime(start.Add(d)) }

// seen looks at an instance and records what it sees, as Drover does.
func (s *stage) seen(machine *machinev1beta1.Machine) *provider.Instance {
	s.t.Helper()
	instance, err := s.Get(s.t.Context(), machine)
	if err != nil {
		s.t.Fatal(err)
	}
	if instance != nil {
		machine.Status.ProviderStatus = instance.Status
	}
	return instance
}

func (s *stage) made(machine *machinev1beta1.Machine) *provider.Instance {
	s.t.Helper()
	instance, err := s.Create(s.t.Context(), machine)
	if err != nil {
		s.t.Fatal(err)
	}
	machine.Status.ProviderStatus = instance.Status
	return instance
}

func (s *stage) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return node
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

func TestBootDelay(t *testing.T) {
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{BootDelay: seconds(30)})
	if instance := s.made(machine); instance.State != provider.Pending || instance.LookAgain != 30*time.Second || s.node("m") != nil {
		t.Errorf("made: %+v", instance)
	}
	s.after(20 * time.Second)
	if instance := s.seen(machine); instance.State != provider.Pending || instance.LookAgain != 10*time.Second {
		t.Errorf("after 20 s: %+v", instance)
	}
	s.after(30 * time.Second)
	if instance := s.seen(machine); instance.State != provider.Running || s.node("m") == nil || s.node("m").Spec.ProviderID != instance.ProviderID {
		t.Errorf("after 30 s: %+v, %+v", instance, s.node("m"))
	}
}

func TestBootDelay_CountsMilliseconds(t *testing.T) {
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{BootDelay: seconds(1)})
	s.after(400 * time.Millisecond)
	s.made(machine)
	s.after(1300 * time.Millisecond)
	if instance := s.seen(machine); instance.State != provider.Pending || instance.LookAgain != 100*time.Millisecond {
		t.Errorf("after 0.9 s: %+v", instance)
	}
	s.after(1400 * time.Millisecond)
	if instance := s.seen(machine); instance.State != provider.Running {
		t.Errorf("after 1 s: %+v", instance)
	}
}

func TestFailures(t *testing.T) {
	s := newStage(t)
	never := machineOf(t, "never", ProviderSpec{Failure: Failure{NeverBoots: true}})
	s.made(never)
	vanishes := machineOf(t, "vanishes", ProviderSpec{Failure: Failure{VanishesAfter: seconds(60)}})
	s.made(vanishes)
	sickens := machineOf(t, "sickens", ProviderSpec{Failure: Failure{NotReadyAfter: seconds(60), VanishesAfter: seconds(90)}})
	s.made(sickens)
	if instance := s.seen(sickens); instance.LookAgain <= 0 || instance.LookAgain > time.Minute {
		t.Errorf("it looks again after %s", instance.LookAgain)
	}
	s.after(2 * time.Hour)
	if instance := s.seen(never); instance == nil || instance.LookAgain != 0 || s.node("never") != nil {
		t.Errorf("never: %+v", instance)
	}
	if instance := s.seen(vanishes); instance != nil || s.node("vanishes") == nil {
		t.Errorf("vanishes: %+v", instance)
	}
	refused := machineOf(t, "refused", ProviderSpec{Failure: Failure{Create: machinev1beta1.InsufficientResourcesMachineError}})
	if _, err := s.Create(t.Context(), refused); provider.ReasonOf(err, "") != machinev1beta1.InsufficientResourcesMachineError {
		t.Errorf("refused: %v", err)
	}
}

// A new instance says when it changes: otherwise it is not reconciled before the next regular check, minutes later.
func TestNewInstance_SaysWhenItChanges(t *testing.T) {
	for name, c := range map[string]struct {
		spec ProviderSpec
		want time.Duration
	}{
		"lives on":                       {ProviderSpec{}, 0},
		"turns NotReady":                 {ProviderSpec{Failure: Failure{NotReadyAfter: seconds(60)}}, time.Minute},
		"vanishes":                       {ProviderSpec{Failure: Failure{VanishesAfter: seconds(60)}}, time.Minute},
		"turns NotReady, then vanishes":  {ProviderSpec{Failure: Failure{NotReadyAfter: seconds(60), VanishesAfter: seconds(90)}}, time.Minute},
		"vanishes before it is NotReady": {ProviderSpec{Failure: Failure{NotReadyAfter: seconds(90), VanishesAfter: seconds(60)}}, time.Minute},
		"boots, then vanishes":           {ProviderSpec{BootDelay: seconds(30), Failure: Failure{VanishesAfter: seconds(60)}}, 30 * time.Second},
		"vanishes before it has booted":  {ProviderSpec{BootDelay: seconds(90), Failure: Failure{VanishesAfter: seconds(60)}}, time.Minute},
		"vanishes and never boots": {
			ProviderSpec{Failure: Failure{NeverBoots: true, VanishesAfter: seconds(60)}}, time.Minute,
		},
		"never boots": {ProviderSpec{Failure: Failure{NeverBoots: true, NotReadyAfter: seconds(60)}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			machine := machineOf(t, "m", c.spec)
			instance, err := s.Create(t.Context(), machine)
			if err != nil || instance.LookAgain != c.want {
				t.Errorf("Create: look again after %s, want %s (%v)", instance.LookAgain, c.want, err)
			}
		})
	}
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{BootDelay: seconds(30), Failure: Failure{NotReadyAfter: seconds(60), VanishesAfter: seconds(120)}})
	s.made(machine)
	for _, look := range []struct{ at, again int }{{30, 60}, {60, 30}, {90, 30}, {100, 20}} {
		s.after(time.Duration(look.at) * time.Second)
		if instance := s.seen(machine); instance.LookAgain != time.Duration(look.again)*time.Second {
			t.Errorf("after %d s: look again after %s, want %d s", look.at, instance.LookAgain, look.again)
		}
	}
	if !sick(s.node("m")) {
		t.Error("the Node is not NotReady")
	}
}

func TestANodeTurnsNotReady(t *testing.T) {
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{Failure: Failure{NotReadyAfter: seconds(60)}})
	s.made(machine)
	s.after(59 * time.Second)
	if s.seen(machine); s.node("m").Annotations[AnnotationReady] != "" {
		t.Error("it is NotReady before its time")
	}
	s.after(time.Minute)
	s.seen(machine)
	if got := s.node("m").Annotations[AnnotationReady]; got != "false" {
		t.Errorf("the annotation is %q", got)
	}
}

func TestAnEndTakesItsTime(t *testing.T) {
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{Failure: Failure{StaysFor: seconds(30)}})
	s.made(machine)
	machine.DeletionTimestamp = &metav1.Time{Time: start}
	if wait, only := provider.AsRequeueAfter(s.Delete(t.Context(), machine)); !only || wait != 30*time.Second || s.seen(machine) == nil {
		t.Errorf("again after %s", wait)
	}
	s.after(30 * time.Second)
	if err := s.Delete(t.Context(), machine); err != nil || s.seen(machine) != nil || s.node("m") != nil {
		t.Errorf("%v", err)
	}
}

// A Node of the name that is another Machine's is not touched: a Machine may be deleted and made anew under its name.
func TestTheNodeOfAnotherMachine(t *testing.T) {
	s := newStage(t)
	s.made(machineOf(t, "m", ProviderSpec{}))
	second := machineOf(t, "m", ProviderSpec{})
	second.UID = "another"
	if _, err := s.Create(t.Context(), second); err == nil || !strings.Contains(err.Error(), "another Machine's") {
		t.Errorf("Create: %v", err)
	}
	second.DeletionTimestamp = &metav1.Time{Time: start}
	if err := s.Delete(t.Context(), second); err != nil || s.node("m") == nil {
		t.Errorf("Delete: %v", err)
	}
}

func TestWhatIsWrongWithASpec(t *testing.T) {
	for text, want := range map[string]string{
		`{"bootDelay":"-1s"}`:               "bootDelay: -1s is negative",
		`{"failure":{"notReadyAfter":"x"}}`: "invalid duration",
		`{"colour":"red"}`:                  `unknown field "colour"`,
		``:                                  "it must be a KwokMachineProviderSpec",
	} {
		machine := machineOf(t, "m", ProviderSpec{})
		machine.Spec.ProviderSpec.Value.Raw = []byte(text)
		_, err := specOf(machine)
		if err == nil || !strings.Contains(err.Error(), want) || provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// Drover may end, or meet a conflict, between the two writes that record an instance.
func TestAnInstanceThatIsRecordedByHalf(t *testing.T) {
	for name, spec := range map[string]ProviderSpec{"booted": {}, "boots": {BootDelay: seconds(30)}} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			machine := machineOf(t, "m", spec)
			instance, err := s.Create(t.Context(), machine)
			if err != nil {
				t.Fatal(err)
			}
			machine.Spec.ProviderID = &instance.ProviderID
			if again := s.seen(machine); again == nil || again.ProviderID != instance.ProviderID {
				t.Errorf("it is found as %+v", again)
			}
		})
	}
	s := newStage(t)
	machine := machineOf(t, "m", ProviderSpec{})
	machine.Spec.ProviderID = new(ProviderID(machine))
	if instance := s.seen(machine); instance == nil || s.node("m") == nil {
		t.Errorf("its Node is not in the cache, and it is found as %+v", instance)
	}
}
