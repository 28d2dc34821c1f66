package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// Machines are what the Machines and MachineSets of a group show beside its Nodes. The zero value stands for a group without Machines.
type Machines struct {
	Sets []MachineSet
	// Namespaces are the namespaces of the MachineSets, and of the Machines of the Nodes.
	Namespaces []string
	// Deleted are the names of the Nodes whose Machine is being deleted.
	Deleted []string
	// Requested are the Machines that were handed over for remediation by others.
	Requested []Requested
	// IsActive reports whether a Machine exists and is not being deleted; nil for a group without Machines.
	IsActive func(machine types.NamespacedName, uid types.UID) bool
}

// MachineSet is a MachineSet, as far as decisions need it.
type MachineSet struct {
	// Wanted is how many Nodes it is to have, growth that has not come yet aside; Nodes is how many it has, those included whose Machine is being
	// deleted.
	Wanted, Nodes int
	// NotCreated is how many of its Machines are gone and have no new one yet.
	NotCreated int
	// New are the Machines that it has made in place of others and whose Node is not known to be available.
	New []NewMachine
}

// NewMachine is a Machine that a MachineSet has made in place of another one.
type NewMachine struct {
	Machine types.NamespacedName
	UID     types.UID
	// For is the UID of the other one, empty for not known, and Capability what it was deleted for.
	For        types.UID
	Capability v1alpha1.Capability
	// Growth reports that the other one had no Node either: the group has not lost one. Surge reports that the other one is not being deleted: the
	// group does not lack a Node without this one.
	Growth, Surge bool
	Created       time.Time
	// Node is the Node that is a member of the group; empty for none. ReadySince is since when it is Ready, zero for not.
	Node       string
	ReadySince time.Time
}

// Requested is a Machine that was handed over for remediation by others.
type Requested struct {
	Machine types.NamespacedName
	UID     types.UID
	// Node and NodeUID identify the Machine's Node; empty for none.
	Node    string
	NodeUID types.UID
	Since   time.Time
}

// Pace is how long a Node is waited for.
type Pace struct {
	// MinReady is how long a Node has to be available after its disruption until it counts as that.
	MinReady time.Duration
	// Deadline is how long a Machine that is made in place of another one counts as unavailable while it has no Ready Node.
	Deadline time.Duration
}

// AddMachines adds to an input what the Machines of the group show.
func (in *Input) AddMachines(machines *Machines, pace Pace) {
	for _, node := range machines.Deleted {
		in.Sign(node, SignMachineDeleted)
	}
	for i := range machines.Requested {
		in.Disrupted = append(in.Disrupted, machines.Requested[i].disruption())
	}
	// What is disrupted as the Machine that is being deleted is not disrupted again as the new one.
	deleted := map[types.UID]bool{}
	for i := range in.Disrupted {
		deleted[in.Disrupted[i].ObjectUID] = true
	}
	for i := range machines.Sets {
		in.addSet(&machines.Sets[i], pace, deleted)
	}
}

func (in *Input) addSet(set *MachineSet, pace Pace, deleted map[types.UID]bool) {
	missing := set.Wanted - set.Nodes
	for i := range set.New {
		m := &set.New[i]
		isReady, isAvailable := m.readiness(in.Now, pace.MinReady)
		if isAvailable {
			continue
		}
		deadline := pace.Deadline
		if isReady {
			in.Sign(m.Node, SignReturning)
			deadline += pace.MinReady
		}
		switch {
		case in.Now.Sub(m.Created) >= deadline:
			if m.Node == "" && !m.Growth && !m.Surge {
				missing--
			}
		case m.For == "" || !deleted[m.For]:
			in.Disrupted = append(in.Disrupted, m.disruption())
		}
	}
	in.Missing += max(0, missing)
	in.NotCreated += set.NotCreated
}

// readiness reports whether the Node is Ready, and whether it has been that for long enough. The kubelet says since when: a time that lies farther
// ahead than the interval was said by a clock that was wrong.
func (m *NewMachine) readiness(now time.Time, minReady time.Duration) (isReady, isAvailable bool) {
	isReady = m.Node != "" && !m.ReadySince.IsZero()
	age := now.Sub(m.ReadySince)
	return isReady, isReady && (age >= minReady || age < -minReady)
}

// Sign adds a sign that is no part of a Node, unless the Node has one.
func (in *Input) Sign(node string, sign Sign) {
	if in.Signs == nil {
		in.Signs = map[string]Sign{}
	}
	if in.Signs[node] == "" {
		in.Signs[node] = sign
	}
}

func (m *NewMachine) disruption() v1alpha1.Reservation {
	name := MachineName(m.Machine)
	request := Request{Node: name, UID: m.UID, Capability: m.Capability, Object: name, ObjectUID: m.UID}
	return request.disruption(m.Created)
}

func (r *Requested) disruption() v1alpha1.Reservation {
	name := MachineName(r.Machine)
	request := Request{Node: r.Node, UID: r.NodeUID, Capability: v1alpha1.CapabilityRemediation, Object: name, ObjectUID: r.UID}
	if r.Node == "" {
		request.Node, request.UID = name, r.UID
	}
	return request.disruption(r.Since)
}
