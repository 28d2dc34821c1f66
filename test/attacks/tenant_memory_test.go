package attacks

import (
	"bufio"
	"cmp"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const (
	// fullFlood is how many objects of each kind the tenant makes in the full lane. maxGrowth is for all of them: 20 MiB for each of the four kinds.
	fullFlood = 2000
	maxGrowth = 80 << 20
	// sampleFlood is how many the sample of make test-all makes; DROVER_ATTACKS_FLOOD sets another number.
	sampleFlood = 100
	// sampleGrowth bounds what the sample adds. Cached whole, they would be 150 MB.
	sampleGrowth = 8 << 20
	// junkBytes is nearly all that the API server takes as the annotations of one object.
	junkBytes = 250_000
)

// TestTenant_FillsTheCache makes thousands of objects, each as large as the API server takes it, of every kind that Drover caches and that a tenant
// or an author of Machines may create.
func TestTenant_FillsTheCache(t *testing.T) {
	harness.TestAllOnly(t, "a minute of large objects")
	count := sampleFlood
	if text := os.Getenv("DROVER_ATTACKS_FLOOD"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil {
			t.Fatalf("DROVER_ATTACKS_FLOOD: %v", err)
		}
	}
	w := harness.NewWorld(t, env)
	asTenant, own, _ := newTenant(t, w)
	mayCreateMachines(w)
	// Where kube-controller-manager runs, each namespace has it, and no Pod comes without.
	w.CreateWithCleanup(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "default"}})
	w.Pool(cluster.PoolOptions{Name: "flood", Machines: 3})
	token, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	operator := w.Operator(harness.Options{Args: []string{"-v=0"}})
	// The buffer of a watch grows once, to the largest object that it has read: that is no cost of each object.
	for _, newObject := range floods(own) {
		if err := asTenant.Create(t.Context(), newObject(count)); err != nil {
			t.Fatal(err)
		}
	}
	w.Mark("flood")
	before := use(t, operator, token)
	for kind, newObject := range floods(own) {
		attack(t, tenant, fmt.Sprintf("makes %d %s, each with %d bytes of junk or more", count, kind, junkBytes), func(t *testing.T) string {
			flood(t, asTenant, count, newObject)
			harness.NewWorld(t, env).Mark("flood")
			return "what Drover does not read is dropped before it is cached; " + use(t, operator, token).since(before)
		})
	}
	w.Mark("flood")
	allowed := max(int64(maxGrowth)*int64(count)/fullFlood, sampleGrowth)
	var grown memory
	check := func() error {
		grown = use(t, operator, token)
		if growth := grown.live - before.live; growth > allowed {
			return fmt.Errorf("the live heap has grown by %s MiB with 4 x %d objects, at most %s are allowed", mib(growth), count, mib(allowed))
		}
		if growth := grown.resident - before.resident; count >= fullFlood && growth > maxGrowth {
			return fmt.Errorf("the process has grown by %s MiB with 4 x %d objects, at most %s are allowed", mib(growth), count, mib(maxGrowth))
		}
		return nil
	}
	// The runtime gives memory back to the kernel some time after it has collected it. What is in a sync.Pool is collected in the second collection, and
	// at rest there is one every two minutes.
	if err := harness.WaitLonger(t.Context(), 5*time.Minute, time.Second, check); err != nil {
		t.Error(err)
	}
	t.Logf("4 x %d objects: %s", count, grown.since(before))
	if count >= fullFlood {
		fresh := w.Operator(harness.Options{Args: []string{"-v=0"}})
		t.Logf("an operator that starts with them: %s", use(t, fresh, token).since(before))
	}
	unflood(w, own)
}

// floods returns functions that make objects of each kind. Each object has an annotation that Drover reads and an annotation that it does not read.
func floods(namespace string) map[string]func(i int) client.Object {
	meta := func(namespace string, i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("junk-%d", i), Annotations: map[string]string{
			"example.com/note": strings.Repeat("x", junkBytes/2), paused.Annotation: strings.Repeat("x", junkBytes/2),
		}}
	}
	return map[string]func(i int) client.Object{
		"Jobs": func(i int) client.Object {
			return &batchv1.Job{ObjectMeta: meta(namespace, i), Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "job", Image: "example.com/job"}}},
			}}}
		},
		"PodDisruptionBudgets": func(i int) client.Object {
			return &policyv1.PodDisruptionBudget{ObjectMeta: meta(namespace, i), Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: manyLabels(i)},
			}}
		},
		"Pods": func(i int) client.Object {
			pod := &corev1.Pod{ObjectMeta: meta(namespace, i), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pod", Image: "example.com/pod"}}}}
			pod.Labels = manyLabels(i)
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: fmt.Sprintf("%d-%s", i, strings.Repeat("x", junkBytes/2)), UID: "1", Controller: new(true),
			}}
			return pod
		},
		"Machines": func(i int) client.Object {
			machine := &machinev1beta1.Machine{ObjectMeta: meta(cluster.MachineNamespace, i)}
			machine.Labels = map[string]string{"flood": "yes"}
			return machine
		},
	}
}

// manyLabels returns labels of half of junkBytes, which no other object has. Their keys are in managedFields once more.
func manyLabels(i int) map[string]string {
	value := strings.Repeat("x", 50)
	labels := map[string]string{"app": strconv.Itoa(i)}
	for n := range junkBytes / 200 {
		labels[fmt.Sprintf("example.com/%s-%d-%d", value[:30], i, n)] = value
	}
	return labels
}

// mayCreateMachines makes the tenant an author of Machines.
func mayCreateMachines(w *harness.World) {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "attacks-machines"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{machinev1beta1.GroupName}, Resources: []string{"machines"}, Verbs: []string{"create"},
	}}}
	w.CreateWithCleanup(role)
	grant(w, cluster.MachineNamespace, role.Name)
}

func flood(t *testing.T, as client.Client, count int, newObject func(i int) client.Object) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			return as.Create(t.Context(), newObject(i))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// unflood deletes what flood has made. Thousands of large objects take the API server longer than it gives one request.
func unflood(w *harness.World, namespace string) {
	ctx, inNamespace := w.Context(), client.InNamespace(namespace)
	for _, remove := range []func() error{
		func() error {
			return w.Client.DeleteAllOf(ctx, &batchv1.Job{}, inNamespace, client.PropagationPolicy(metav1.DeletePropagationBackground))
		},
		func() error { return w.Client.DeleteAllOf(ctx, &policyv1.PodDisruptionBudget{}, inNamespace) },
		func() error {
			return w.Client.DeleteAllOf(ctx, &corev1.Pod{}, inNamespace, client.GracePeriodSeconds(0))
		},
		func() error {
			made := client.MatchingLabels{"flood": "yes"}
			return w.Client.DeleteAllOf(ctx, &machinev1beta1.Machine{}, client.InNamespace(cluster.MachineNamespace), made)
		},
	} {
		if err := harness.WaitLonger(ctx, 5*time.Minute, time.Second, remove); err != nil {
			w.Error(err)
		}
	}
}

// memory is what an operator uses, in bytes: live is what the last garbage collection found in use, resident and peak what the kernel counts.
type memory struct{ live, resident, peak int64 }

func (m memory) since(before memory) string {
	return fmt.Sprintf("live heap +%s MiB, resident +%s MiB (now %s), peak %s MiB",
		mib(m.live-before.live), mib(m.resident-before.resident), mib(m.resident), mib(m.peak))
}

func mib(bytes int64) string { return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64) }

// use reads the operator's own metrics, and the highest of its resident memory.
func use(t *testing.T, operator *harness.Operator, token string) memory {
	t.Helper()
	var text string
	err := harness.WaitFor(t.Context(), func() (err error) {
		text, err = operator.Scrape(t.Context(), token)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), " "); found && !strings.HasPrefix(name, "#") {
			values[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	m := memory{live: int64(values["go_gc_heap_live_bytes"]), resident: int64(values["process_resident_memory_bytes"])}
	m.peak = cmp.Or(peak(t, operator.PID), m.resident)
	if m.live == 0 || m.resident == 0 {
		t.Fatal("the metrics of the Go runtime are missing")
	}
	return m
}

// peak is the highest resident memory of a process so far, zero where the kernel does not say.
func peak(t *testing.T, pid int) int64 {
	t.Helper()
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		var kib int64
		if _, err := fmt.Sscanf(scanner.Text(), "VmHWM: %d kB", &kib); err == nil {
			return kib << 10
		}
	}
	return 0
}
