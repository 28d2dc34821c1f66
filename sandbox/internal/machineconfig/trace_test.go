package machineconfig_test

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// trace writes down everything that a stage's Nodes and its ClusterVersion go through, version by version.
type trace struct {
	mu sync.Mutex
	// nodes are the Nodes as they are.
	nodes map[string]*corev1.Node
	// lines are what each Node went through, without repetitions.
	lines map[string][]string
	// order is what happened, in the order of the server: "NODE desired CONFIG", "NODE done CONFIG", "version VERSION STATE".
	order []happening
	// most is how many Nodes of a role were cordoned, NotReady or in an update at once, at most.
	most map[string]int
	// last is the newest version and its state.
	last string
}

// happening is an event and the resource version when it was observed.
type happening struct {
	at   uint64
	text string
}

// follow starts a trace. It ends with the test.
func (s *stage) follow() *trace {
	s.Helper()
	t := &trace{nodes: map[string]*corev1.Node{}, lines: map[string][]string{}, most: map[string]int{}}
	watches := make([]watch.Interface, 0, 2)
	for _, list := range []client.ObjectList{&corev1.NodeList{}, &configv1.ClusterVersionList{}} {
		s.must(s.client.List(s.Context(), list))
		switch list := list.(type) {
		case *corev1.NodeList:
			for i := range list.Items {
				t.node(&list.Items[i])
			}
		case *configv1.ClusterVersionList:
			for i := range list.Items {
				t.version(&list.Items[i])
			}
		}
		from := &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
		started, err := s.client.Watch(s.Context(), list, &client.ListOptions{Raw: from})
		s.must(err)
		watches = append(watches, started)
	}
	for _, started := range watches {
		s.Cleanup(started.Stop)
		go func() {
			for event := range started.ResultChan() {
				switch object := event.Object.(type) {
				case *corev1.Node:
					t.node(object)
				case *configv1.ClusterVersion:
					t.version(object)
				}
			}
		}()
	}
	return t
}

// describe is a Node in a few words.
func describe(node *corev1.Node) string {
	words := []string{node.Annotations[openshift.AnnotationState]}
	if node.Spec.Unschedulable {
		words = append(words, "cordoned")
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
			words = append(words, "down")
		}
	}
	asked, done := node.Annotations[openshift.AnnotationDesiredDrain], node.Annotations[openshift.AnnotationLastAppliedDrain]
	words = append(words, strings.SplitN(asked, "-", 2)[0])
	if asked == done {
		words = append(words, "applied")
	}
	if node.Annotations[openshift.AnnotationCurrentConfig] == node.Annotations[openshift.AnnotationDesiredConfig] {
		words = append(words, "there")
	}
	if version := node.Labels[openshift.VersionKey]; version != "" {
		words = append(words, version)
	}
	return strings.Join(words, " ")
}

func (t *trace) node(node *corev1.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.nodes[node.Name]
	t.nodes[node.Name] = node
	line := describe(node)
	if lines := t.lines[node.Name]; len(lines) == 0 || lines[len(lines)-1] != line {
		t.lines[node.Name] = append(lines, line)
	}
	if before == nil {
		return
	}
	desired, current := node.Annotations[openshift.AnnotationDesiredConfig], node.Annotations[openshift.AnnotationCurrentConfig]
	if before.Annotations[openshift.AnnotationDesiredConfig] != desired {
		t.happened(node, fmt.Sprintf("%s desired %s", node.Name, desired))
	}
	if before.Annotations[openshift.AnnotationCurrentConfig] != current {
		t.happened(node, fmt.Sprintf("%s done %s", node.Name, current))
	}
	busy := map[string]int{}
	for _, other := range t.nodes {
		if words := describe(other); strings.HasPrefix(words, "Done uncordon applied there") {
			continue
		}
		for label := range other.Labels {
			if role, ok := strings.CutPrefix(label, "node-role.kubernetes.io/"); ok {
				busy[role]++
			}
		}
	}
	for role, count := range busy {
		t.most[role] = max(t.most[role], count)
	}
}

func (t *trace) version(version *configv1.ClusterVersion) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(version.Status.History) == 0 {
		return
	}
	newest := version.Status.History[0]
	line := fmt.Sprintf("version %s %s", newest.Version, newest.State)
	if line != t.last {
		t.last = line
		t.happened(version, line)
	}
}

// happened keeps the server's order, also where one watch is behind the other.
func (t *trace) happened(object client.Object, text string) {
	at, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		panic(err) // it is etcd's
	}
	t.order = append(t.order, happening{at, text})
	slices.SortStableFunc(t.order, func(a, b happening) int { return cmp.Compare(a.at, b.at) })
}

// seen returns what a Node went through.
func (t *trace) seen(node string) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]string(nil), t.lines[node]...)
}

// first is the place of the first thing in the order that begins with a text; -1 for none.
func (t *trace) first(text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, line := range t.order {
		if strings.HasPrefix(line.text, text) {
			return i
		}
	}
	return -1
}

// count counts what begins with a text.
func (t *trace) count(text string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	count := 0
	for _, line := range t.order {
		if strings.HasPrefix(line.text, text) {
			count++
		}
	}
	return count
}

// atOnce is how many Nodes of a role were not at rest at once, at most.
func (t *trace) atOnce(role string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.most[role]
}
