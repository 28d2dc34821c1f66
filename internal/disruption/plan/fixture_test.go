package plan

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

var now = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

const (
	maintenance = v1alpha1.CapabilityMaintenance
	remediation = v1alpha1.CapabilityRemediation
	upgrade     = v1alpha1.CapabilityUpgrade
	metadata    = v1alpha1.CapabilityMetadata
	replacement = v1alpha1.CapabilityReplacement
)

// fixture is a group of Nodes n0, n1, ... and what else a decision depends on.
type fixture struct {
	Input

	nodes []*corev1.Node
}

// newFixture returns a group of so many Nodes. All are Ready, and one of them may be unavailable.
func newFixture(nodes int, changes ...func(*fixture)) *fixture {
	f := &fixture{Input: Input{Now: now, Signs: map[string]Sign{}, Waiting: &Queue{}}}
	f.Group = &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	f.Group.Spec.Disruption = &v1alpha1.Disruption{}
	for i := range nodes {
		f.nodes = append(f.nodes, newNode(fmt.Sprintf("n%d", i)))
	}
	for _, change := range changes {
		change(f)
	}
	f.count()
	return f
}

func (f *fixture) count() {
	f.Members = NewMembers()
	for _, node := range f.nodes {
		f.Members.Add(MemberOf(node, nil))
	}
}

func withNode(at int, changes ...change) func(*fixture) {
	return func(f *fixture) {
		for _, change := range changes {
			change(f.nodes[at])
		}
	}
}

func withSpec(change func(*v1alpha1.Disruption)) func(*fixture) {
	return func(f *fixture) { change(f.Group.Spec.Disruption) }
}

func withMax(value string) func(*fixture) {
	return withSpec(func(spec *v1alpha1.Disruption) { spec.MaxUnavailable = new(intstr.Parse(value)) })
}

func withCeiling(capability v1alpha1.Capability, value string) func(*fixture) {
	return withSpec(func(spec *v1alpha1.Disruption) {
		spec.PerCapability = append(spec.PerCapability, v1alpha1.CapabilityBudget{Capability: capability, MaxUnavailable: intstr.Parse(value)})
	})
}

// withDisruption has a Node disrupted for an object that has its name. A Node that is not there is gone.
func withDisruption(node string, capability v1alpha1.Capability) func(*fixture) {
	return func(f *fixture) {
		f.Disrupted = append(f.Disrupted, v1alpha1.Reservation{
			Node: node, UID: types.UID("uid-of-" + node), Capability: capability, Object: node, Time: metav1.NewTime(now.Add(-time.Hour)),
		})
	}
}

func withLease(node string) func(*fixture) { return func(f *fixture) { f.Signs[node] = SignLeased } }

func withReturning(node string) func(*fixture) {
	return func(f *fixture) { f.Signs[node] = SignReturning }
}

func withWindow(window Window) func(*fixture) { return func(f *fixture) { f.Window = window } }

// withWaiting adds a request that has waited for some time.
func withWaiting(node string, capability v1alpha1.Capability, since time.Duration) func(*fixture) {
	return func(f *fixture) {
		f.Waiting.Put(Request{Node: node, Capability: capability, Object: node, Since: now.Add(-since)})
	}
}

// newRequest returns a request for an object that has the name of its Node.
func newRequest(node string, capability v1alpha1.Capability) Request {
	return Request{Node: node, UID: types.UID("uid-of-" + node), Capability: capability, Object: node, Since: now}
}

func byPerson(request Request) Request {
	request.Person = true
	return request
}

// begun returns a request whose work may have begun.
func begun(request Request) Request {
	request.Begun = true
	return request
}
