package nodegroup

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	maintenanceplan "github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/harness"
)

// examples returns the NodeGroups of docs/node-groups as they stand there, as text by their names.
func examples(t *testing.T) map[string]string {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join("..", "..", "docs", "node-groups", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			group := &v1alpha1.NodeGroup{}
			if err := yaml.UnmarshalStrict([]byte(example[1]), group); err != nil {
				t.Fatalf("%s: %v in\n%s", page, err, example[1])
			}
			found[group.Name] = example[1]
		}
	}
	return found
}

// TestDocs_ExamplesAreAccepted: the API server accepts every example of docs/node-groups as it stands there.
func TestDocs_ExamplesAreAccepted(t *testing.T) {
	w, all := harness.NewWorld(t, env), examples(t)
	if len(all) < 9 {
		t.Fatalf("there are %d examples", len(all))
	}
	for _, example := range all {
		output, err := harness.Kubectl(t.Context(), w.Cluster, strings.NewReader(example), "create", "--dry-run=server", "-f", "-")
		if err != nil {
			t.Errorf("%v: %s\n%s", err, output, example)
		}
	}
}

// TestDocs_ExamplesHaveTheirEffect: the examples of docs/node-groups do what the pages say, applied as they stand there to Nodes that match. It
// has an operator of its own, since one of them selects all workers.
func TestDocs_ExamplesHaveTheirEffect(t *testing.T) {
	f, all := newFixture(t, "docs", 1), examples(t)
	f.Operator(harness.Options{})
	apply := func(name string) {
		t.Helper()
		group := &v1alpha1.NodeGroup{}
		if err := yaml.UnmarshalStrict([]byte(all[name]), group); err != nil {
			t.Fatalf("%v: there is no such example of %s:\n%s", err, name, all[name])
		}
		f.create(group)
	}
	for i := range 3 {
		for kind, labels := range map[string]map[string]string{
			"batch": {"eks.amazonaws.com/nodegroup": "batch"}, "worker": {"node-role.kubernetes.io/worker": ""},
			"dedicated": {"eks.amazonaws.com/nodegroup": "dedicated"}, "web": {},
		} {
			f.register(fmt.Sprintf("docs-%s-%02d", kind, i), "zone-a", builder.WithNodeLabels(labels), func(node *corev1.Node) {
				if kind == "web" {
					node.Annotations["cluster.x-k8s.io/cluster-name"], node.Annotations["cluster.x-k8s.io/cluster-namespace"] = "prod", "default"
					node.Annotations["cluster.x-k8s.io/owner-kind"] = "MachineSet"
					node.Annotations["cluster.x-k8s.io/owner-name"] = "prod-md-0-x7k2p"
				}
			})
		}
	}
	for _, name := range []string{"batch", "workers", "dedicated", "prod-md-0"} {
		apply(name)
	}
	f.checkWorkers()
	for i := range 3 {
		f.eventuallyNode(fmt.Sprintf("docs-dedicated-%02d", i), "has the taint: there is no Pod on it", func(node *corev1.Node) error {
			return harness.Has(node, nil, nil, "example.com/dedicated=batch:NoExecute")
		})
		f.eventuallyNode(fmt.Sprintf("docs-web-%02d", i), "has the label", hasLabel("example.com/tier", "web"))
	}
	if err := f.Client.Delete(t.Context(), f.group("prod-md-0")); err != nil {
		t.Fatal(err)
	}
	f.eventuallyGone("prod-md-0")
	f.eventuallyNode("docs-web-02", "has been released", hasLabel("example.com/tier", ""))
	f.checkPool()
	if node := f.Node("docs-00"); len(node.Spec.Taints) > 0 || node.Annotations[ownership.AnnotationGroupRecord] != "" {
		t.Errorf("a Node that no example selects has the taints %v and the annotations %v", node.Spec.Taints, node.Annotations)
	}
}

// checkPool checks the example of a managed node pool: one Node first, then a pause; a Node that joins gets its metadata at once.
func (f *fixture) checkPool() {
	f.Helper()
	carries := func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil, "example.com/dedicated=batch:NoSchedule")
	}
	f.eventuallyNode("docs-batch-00", "is in the first wave", carries)
	f.eventuallyCondition("batch", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonPausing)
	f.register("docs-batch-new", "zone-a", builder.WithNodeLabels(map[string]string{"eks.amazonaws.com/nodegroup": "batch"}))
	f.eventuallyNode("docs-batch-new", "has it at once", carries)
	for _, later := range []string{"docs-batch-01", "docs-batch-02"} {
		if err := hasLabel("example.com/team", "")(f.Node(later)); err != nil {
			f.Errorf("Node %s of a later wave, during the pause: %v", later, err)
		}
	}
}

// checkWorkers checks the example of OpenShift workers: two of them may be unavailable, and a user's maintenance of a third one waits.
func (f *fixture) checkWorkers() {
	f.Helper()
	// A maintenance that begins before Drover has heard of the group needs no place in its budget.
	f.eventuallyCondition("workers", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	first, second := f.Maintain("docs-worker-00", nil), f.Maintain("docs-worker-01", nil)
	first.Phase(medik8s.PhaseSucceeded)
	second.Phase(medik8s.PhaseSucceeded)
	third := f.Maintain("docs-worker-02", nil)
	third.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "docs-worker-00 (disrupted for Maintenance)")
	if f.Node("docs-worker-02").Spec.Unschedulable {
		f.Error("the Node of the maintenance that waits is cordoned")
	}
	f.eventuallyBudget("workers", 2, 2)
	first.End()
	third.Phase(medik8s.PhaseSucceeded)
	second.End()
	third.End()
	f.eventuallyBudget("workers", 0, 0)
}
