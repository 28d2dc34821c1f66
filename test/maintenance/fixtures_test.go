package maintenance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/test/harness"
)

// What a node in maintenance has.
const (
	medik8sTaint  = "medik8s.io/drain=:NoSchedule"
	kubevirtTaint = "kubevirt.io/drain=:NoSchedule"
	cordonTaint   = "node.kubernetes.io/unschedulable=:NoSchedule"
	outOfService  = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
)

// inMaintenance returns an error that says why a node is not in maintenance.
func inMaintenance(node *corev1.Node) error {
	if !node.Spec.Unschedulable {
		return fmt.Errorf("it is not cordoned")
	}
	if node.Annotations[drain.AnnotationCordon] == "" {
		return fmt.Errorf("there is no record on it")
	}
	return harness.Has(node, map[string]string{maintenance.ExcludeLabel: "true"}, nil, medik8sTaint, cordonTaint)
}

// looks renders what a maintenance may change on a node.
func looks(node *corev1.Node) string {
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
		labels = append(labels, key+"="+node.Labels[key])
	}
	taints := slices.DeleteFunc(harness.Taints(node), func(taint string) bool {
		// kube-controller-manager's word about the kubelet, which comes and goes when it likes.
		return strings.HasPrefix(taint, corev1.TaintNodeUnreachable)
	})
	slices.Sort(taints)
	return fmt.Sprintf("cordoned %t, taints %v, record %q, labels %s", node.Spec.Unschedulable, taints,
		node.Annotations[drain.AnnotationCordon], strings.Join(labels, " "))
}

// givenBack waits until a node looks as it did before.
func givenBack(s *harness.Site, node, before string) {
	s.Helper()
	s.AwaitNode(node, "giving back", func(n *corev1.Node) error {
		if now := looks(n); now != before {
			return fmt.Errorf("it is\n%s\nand was\n%s", now, before)
		}
		return nil
	})
}

// awaitMaintenance waits until a node has everything of a node in maintenance.
func awaitMaintenance(s *harness.Site, node string) {
	s.Helper()
	s.AwaitNode(node, "maintenance", inMaintenance)
}

// patch changes an object as kubectl does.
func patch(s *harness.Site, object client.Object, text string) error {
	return s.Client.Patch(s.Context(), object, client.RawPatch(types.MergePatchType, []byte(text)))
}

// force deletes a pod without asking its kubelet.
const force = client.GracePeriodSeconds(0)

// uids returns the UIDs of pods, by name.
func uids(pods []corev1.Pod) map[string]types.UID {
	out := map[string]types.UID{}
	for i := range pods {
		out[pods[i].Name] = pods[i].UID
	}
	return out
}

// drainedMeanwhile has the operator drain another node of the site: what it was to do before is done then, or it never will be.
func drainedMeanwhile(s *harness.Site) {
	s.Helper()
	node := s.AddNode()
	s.Pod(node+"-meanwhile", harness.Pods{Node: node})
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	m.End()
}

// requests are what the operator has asked of the site's pods so far.
func requests(s *harness.Site) harness.Requests {
	s.Helper()
	return checker.Verify(s)
}

// since is when a node was cordoned, by its record.
func since(s *harness.Site, node string) time.Time {
	s.Helper()
	hold, err := drain.ReadCordonRecord(s.Node(node))
	if err != nil || hold == nil {
		s.Fatalf("node %s has no record: %v", node, err)
	}
	return hold.Since
}
