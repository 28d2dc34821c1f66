package operator

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-io/drover/internal/compact"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/machine"
	machineplan "github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/upgrade"
)

// cachedKinds are the kinds of all capabilities.
func cachedKinds() []client.Object {
	kinds := slices.Concat(metadata.Kinds(), machine.Kinds(), machineset.Kinds(), healthcheck.Kinds(), upgrade.Kinds())
	for _, group := range maintenance.Groups() {
		kinds = append(kinds, group.Kinds()...)
	}
	return append(kinds, metadataOf(crdKind))
}

// Each kind that a capability caches has a transform of its own: a tenant of 2,000 objects with 250 KB each would otherwise fill the memory.
func TestCache_HasATransformForEachKind(t *testing.T) {
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, makes := range []bool{false, true} {
		trimmed := map[string]bool{}
		for object, by := range cacheOptions("", makes).ByObject {
			kind, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				t.Fatal(err)
			}
			trimmed[kind.String()] = by.Transform != nil
		}
		for _, object := range cachedKinds() {
			kind, err := apiutil.GVKForObject(object, scheme)
			if err != nil {
				t.Fatal(err)
			}
			if !trimmed[kind.String()] {
				t.Errorf("%s has no transform", kind)
			}
		}
	}
}

// What a tenant can add to an object without effect does not reach the cache.
func TestTransforms_DropWhatIsNotRead(t *testing.T) {
	const long = 250_000
	junk := strings.Repeat("x", long)
	for _, makes := range []bool{false, true} {
		for object, by := range cacheOptions("", makes).ByObject {
			switch object.(type) {
			case *corev1.Node, *corev1.Pod, *coordinationv1.Lease, *mcfgv1.MachineConfigPool:
				continue // their keys may be any, or their transform makes another type
			}
			annotations := map[string]string{"example.com/note": junk}
			for key := range cachedAnnotations {
				annotations[key] = junk
			}
			object.SetAnnotations(annotations)
			object.SetManagedFields([]metav1.ManagedFieldsEntry{{FieldsV1: metav1.NewFieldsV1(junk)}})
			if out, err := by.Transform(object); err != nil || out != any(object) {
				t.Fatalf("a %T became %T, %v", object, out, err)
			}
			size := 0
			for key, value := range object.GetAnnotations() {
				size += len(key) + len(value)
			}
			if size > 4096 || object.GetManagedFields() != nil {
				t.Errorf("%T: %d bytes of annotations are cached", object, size)
			}
		}
	}
}

func TestTrimBudget_KeepsWhatDecides(t *testing.T) {
	status := policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1, CurrentHealthy: 3, ObservedGeneration: 3}
	policy := policyv1.AlwaysAllow
	budget := trimmed(t, drain.TrimBudget, &policyv1.PodDisruptionBudget{
		ObjectMeta: fullMeta("b"), Status: status,
		Spec: policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{}, UnhealthyPodEvictionPolicy: &policy},
	})
	if budget.Generation != 3 || budget.UID == "" || budget.Spec.Selector == nil || budget.Spec.UnhealthyPodEvictionPolicy == nil ||
		budget.Status.CurrentHealthy != 3 || budget.Annotations != nil || budget.Labels != nil {
		t.Errorf("%+v", budget)
	}
}

// TestTrimBudget_LongSelector: a tenant's selector is as long as a request can be. A selector that people write is kept.
func TestTrimBudget_LongSelector(t *testing.T) {
	selectorOf := func(values int) *metav1.LabelSelector {
		in := metav1.LabelSelectorRequirement{Key: "app", Operator: metav1.LabelSelectorOpIn}
		for i := range values {
			in.Values = append(in.Values, fmt.Sprintf("application-%d", i))
		}
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{in}}
	}
	for values, kept := range map[int]bool{100: true, 1000: false} {
		budget := trimmed(t, drain.TrimBudget, &policyv1.PodDisruptionBudget{
			ObjectMeta: fullMeta("b"), Spec: policyv1.PodDisruptionBudgetSpec{Selector: selectorOf(values)},
		})
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: budget.Namespace, Labels: map[string]string{"app": "application-7"}}}
		if drain.Selects(budget, pod) != kept {
			t.Errorf("a selector with %d values is kept: %t", values, !kept)
		}
	}
}

func TestTrimJob_KeepsWhatDecides(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: fullMeta("j")}
	job.Labels["upgrade.drover.dev/run"], job.Annotations["upgrade.drover.dev/rule"] = "uid", "a/b"
	job.Spec.TTLSecondsAfterFinished = new(int32(3))
	job.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c"}}
	job.Status.Conditions, job.Status.Active = []batchv1.JobCondition{{Type: batchv1.JobComplete}}, 1
	job = trimmed(t, keepAnnotations(upgrade.TrimJob), job)
	if len(job.Labels) != 1 || job.Annotations["upgrade.drover.dev/rule"] != "a/b" || *job.Spec.TTLSecondsAfterFinished != 3 ||
		len(job.Status.Conditions) != 1 || job.Spec.Template.Spec.Containers != nil || job.CreationTimestamp.IsZero() {
		t.Errorf("%+v", job)
	}
}

func TestTrimClusterVersion_KeepsWhatDecides(t *testing.T) {
	version := &configv1.ClusterVersion{ObjectMeta: fullMeta("version")}
	version.Spec.DesiredUpdate = &configv1.Update{Version: "4.20.1"}
	version.Status.Desired.Version = "4.20.0"
	version.Status.History = []configv1.UpdateHistory{{Version: "4.20.0", State: configv1.CompletedUpdate}, {Version: "4.19.0"}}
	version = trimmed(t, keepAnnotations(upgrade.TrimClusterVersion), version)
	if version.Spec.DesiredUpdate == nil || version.Status.Desired.Version != "4.20.0" || len(version.Status.History) != 1 ||
		version.Status.History[0].State != configv1.CompletedUpdate || version.Generation != 3 {
		t.Errorf("%+v", version)
	}
}

func TestTrimNode_KeepsSignsOfUnavailableNode(t *testing.T) {
	for name, trim := range map[string]func(*corev1.Node){"metadata": compact.Node, "machines": trimNodeOfMachine} {
		node := &corev1.Node{ObjectMeta: fullMeta("n")}
		node.Annotations["weave.works/kured-reboot-in-progress"] = ""
		node.Spec.Unschedulable, node.Spec.Taints = true, []corev1.Taint{{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule}}
		for _, kind := range []corev1.NodeConditionType{
			corev1.NodeMemoryPressure, corev1.NodeDrained, corev1.NodeDrainInProgress, corev1.NodeMaintenanceInProgress,
		} {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue})
		}
		want := disruptionplan.Signs(node, nil)
		if got := disruptionplan.Signs(trimmed(t, trim, node), nil); len(want) < 7 || !slices.Equal(got, want) {
			t.Errorf("%s: the signs are %q, want %q", name, got, want)
		}
	}
}

// A providerSpec that is too long is not kept for others.
func TestShareProviderSpecs_LongOnesAreNotKept(t *testing.T) {
	share, long := shareProviderSpecs(), []byte(strings.Repeat("x", maxSharedProviderSpec+1))
	machines := [2]*machinev1beta1.Machine{}
	for i := range machines {
		machines[i] = fullMachine()
		machines[i].Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: slices.Clone(long)}
		machines[i] = trimmed(t, share, machines[i])
	}
	if a, b := machines[0].Spec.ProviderSpec.Value.Raw, machines[1].Spec.ProviderSpec.Value.Raw; len(a) != len(long) || &a[0] == &b[0] {
		t.Error("the text is shared, or cut")
	}
}

// A provider may read annotations of its own, within a bound.
func TestShareProviderSpecs_AnnotationsForProviders(t *testing.T) {
	for name, c := range map[string]struct {
		others map[string]string
		want   bool
	}{
		"small": {map[string]string{"example.com/a": "b", corev1.LastAppliedConfigAnnotation: strings.Repeat("x", maxOtherAnnotations)}, true},
		"large": {map[string]string{"example.com/a": "b", "example.com/b": strings.Repeat("x", maxOtherAnnotations)}, false},
	} {
		trimmed := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{machineplan.AnnotationDrainTimeout: "1m"}}}
		maps.Copy(trimmed.Annotations, c.others)
		shareProviderSpecs()(trimmed)
		_, kept := trimmed.Annotations["example.com/a"]
		_, applied := trimmed.Annotations[corev1.LastAppliedConfigAnnotation]
		if kept != c.want || applied || trimmed.Annotations[machineplan.AnnotationDrainTimeout] != "1m" {
			t.Errorf("%s: the cache has %d annotations, want the provider's: %t", name, len(trimmed.Annotations), c.want)
		}
	}
}

// A record that is too long is cut in the cache, and what reads it says so.
func TestTransforms_CutRecordIsNoRecord(t *testing.T) {
	machine := fullMachine()
	machine.Annotations[ownership.AnnotationRecord] = `{"labels":["` + strings.Repeat("a", ownership.MaxRecordBytes) + `"]}`
	_, err := ownership.ParseRecord(trimmed(t, trimMachine, machine).Annotations[ownership.AnnotationRecord])
	if err == nil || !strings.Contains(err.Error(), "of which at most 32768 are read") {
		t.Errorf("error %v", err)
	}
}

// notCached are the annotations in the sources that are on objects which are not trimmed, or that only people and other programs read.
var notCached = []string{
	// On Nodes, Pods, MachineConfigPools and leases.
	"drover.dev/cordon", "managed.openshift.com/customlabels", "machine.openshift.io/machine", "kubernetes.io/config.mirror",
	"drover.dev/capability", "drover.dev/object", "drover.dev/object-uid", "drover.dev/node-group",
	"karpenter.sh/do-not-disrupt", "upgrade.drover.dev/released", "upgrade.drover.dev/claim", "machineconfiguration.openshift.io/state",
	"machineconfiguration.openshift.io/reason", "machineconfiguration.openshift.io/desiredConfig",
	"machineconfiguration.openshift.io/currentConfig", "machineconfiguration.openshift.io/desiredDrain",
	"machineconfiguration.openshift.io/lastAppliedDrain", "weave.works/kured-reboot-in-progress",
	"drover.dev/group-owned-metadata", "cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-namespace", "cluster.x-k8s.io/owner-kind",
	"cluster.x-k8s.io/owner-name",
	// The value of an annotation.
	"drover.dev/replaced",
	// Read by kubectl drover alone.
	"drover.dev/paused-reason",
	// On ControllerRevisions and remediation requests, which no cache has.
	"drover.dev/remediation-for", "drover.dev/revision-of", "drover.dev/nodegroup",
}

// An annotation that is read from the cache but not listed would always read as absent: each constant has to be in one of the two lists.
func TestCachedAnnotations_HasEachConstant(t *testing.T) {
	found := 0
	for name, key := range annotationConstants(t) {
		found++
		_, cached := cachedAnnotations[key]
		_, cachedOfSets := setAnnotations[key]
		if !cached && !cachedOfSets && !slices.Contains(notCached, key) {
			t.Errorf("%s (%s) is neither in cachedAnnotations or setAnnotations nor known to be read elsewhere", name, key)
		}
	}
	if found < len(cachedAnnotations) {
		t.Errorf("%d constants were found for %d keys", found, len(cachedAnnotations))
	}
}

// annotationConstants finds the constants of the operator whose names say that they are annotations, or whose keys are Drover's own.
func annotationConstants(t *testing.T) map[string]string {
	t.Helper()
	named, qualified := regexp.MustCompile(`(?i)annotation`), regexp.MustCompile(`^[a-z0-9.-]+\.[a-z]+/[A-Za-z0-9._-]+$`)
	others := []string{"upgrade.drover.dev/run", "upgrade.drover.dev/kind", "drover.dev/uninitialized"} // of labels and taints
	found := map[string]string{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/cli/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i := range spec.Values {
				literal, ok := spec.Values[i].(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					continue
				}
				key, err := strconv.Unquote(literal.Value)
				ours := strings.Contains(key, "drover.dev/") && !slices.Contains(others, key)
				if err == nil && qualified.MatchString(key) && (named.MatchString(spec.Names[i].Name) || ours) {
					found[path+" "+spec.Names[i].Name] = key
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
