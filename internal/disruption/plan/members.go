package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/nodestate"
)

// Member is a Node of a group, as far as decisions need it.
type Member struct {
	Name string
	UID  types.UID
	// Ready and Joining are IsReady and IsJoining of the Node, Sign is the first of its Signs, empty for none.
	Ready, Joining bool
	Sign           Sign
}

// MemberOf returns a Node as a member of a group that adds keys to the taints of unavailable Nodes.
func MemberOf(node *corev1.Node, taints []string) Member {
	member := Member{Name: node.Name, UID: node.UID, Ready: nodestate.IsReady(node), Joining: IsJoining(node)}
	if signs := Signs(node, taints); len(signs) > 0 {
		member.Sign = signs[0]
	}
	return member
}

// Members are the Nodes of a group, counted when they come and go.
type Members struct {
	byName map[string]Member
	// initialized counts the members that are not joining. unavailable has the initialized members that have a sign.
	initialized int
	unavailable map[string]Sign
}

// NewMembers returns the members of a group.
func NewMembers(members ...Member) *Members {
	m := &Members{byName: map[string]Member{}, unavailable: map[string]Sign{}}
	for i := range members {
		m.Add(members[i])
	}
	return m
}

// Add adds a member that is not among them.
func (m *Members) Add(member Member) {
	m.byName[member.Name] = member
	if member.Joining {
		return
	}
	m.initialized++
	if member.Sign != "" {
		m.unavailable[member.Name] = member.Sign
	}
}

// Remove removes a member.
func (m *Members) Remove(name string) {
	member, found := m.byName[name]
	if !found {
		return
	}
	delete(m.byName, name)
	if !member.Joining {
		m.initialized--
		delete(m.unavailable, name)
	}
}

// Get returns the member of a name; the zero value for none.
func (m *Members) Get(name string) Member { return m.byName[name] }

// Has reports whether a Node is a member; with a UID only if that is the member's.
func (m *Members) Has(name string, uid types.UID) bool {
	_, found := m.get(name, uid)
	return found
}

// get returns a member. Without a UID it is the Node of that name, with one it is found only if it has that UID.
func (m *Members) get(name string, uid types.UID) (Member, bool) {
	member, found := m.byName[name]
	return member, found && (uid == "" || member.UID == uid)
}
