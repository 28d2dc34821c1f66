package engine

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/internal/drain"
)

// fullPod returns a pod with all fields that a drain needs, and others that it does not need.
func fullPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
			Annotations:       map[string]string{drain.AnnotationKarpenter: "1h", drain.AnnotationMirror: "x", "other": "y"},
			CreationTimestamp: metav1.Time{Time: start.Add(-2 * time.Hour)},
			DeletionTimestamp: &metav1.Time{Time: start}, DeletionGracePeriodSeconds: new(int64(5)), Finalizers: []string{"a/b"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Other", Name: "o"}, {Kind: "ReplicaSet", Name: "web", Controller: new(true),
				APIVersion: "apps/v1"}},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", TerminationGracePeriodSeconds: new(int64(60)), Priority: new(int32(9)), Containers: []corev1.Container{{Name: "c"}},
			Volumes: []corev1.Volume{{Name: "e"}, {Name: "d", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: start.Add(-time.Hour)}, PodIP: "10.0.0.1",
			Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}, {Type: corev1.PodReady,
				Status: corev1.ConditionTrue}},
		},
	}
}

func small(t *testing.T, pod *corev1.Pod) *smallPod {
	t.Helper()
	object, err := TrimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	trimmed, ok := object.(*smallPod)
	if !ok {
		t.Fatalf("a %T", object)
	}
	return trimmed
}

// TestTrimPod_BoundsWhatTenantsWrite: a cached pod is small, whatever a tenant writes.
func TestTrimPod_BoundsWhatTenantsWrite(t *testing.T) {
	pod := fullPod()
	long := strings.Repeat("x", 200<<10)
	pod.Annotations = map[string]string{drain.AnnotationKarpenter: long, drain.AnnotationMirror: long}
	pod.OwnerReferences[1].Name, pod.OwnerReferences[1].Kind = long, long
	pod.Finalizers = nil
	for i := range 1000 {
		name := fmt.Sprintf("example.com/x%d-%s", i, strings.Repeat("x", 40))
		pod.Finalizers = append(pod.Finalizers, name)
		pod.Labels[name] = name
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	cached := small(t, pod).pod()
	text, err := json.Marshal(cached)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 64<<10 || len(cached.Finalizers) == 0 || cap(cached.Finalizers) > maxFinalizers {
		t.Errorf("%d bytes are cached, with %d finalizers", len(text), len(cached.Finalizers))
	}
	if _, static := cached.Annotations[drain.AnnotationMirror]; !static {
		t.Error("a static pod is not one any more")
	}
	if len(cached.Labels) < 30 || cached.Labels["app"] != "web" {
		t.Errorf("%d labels", len(cached.Labels))
	}
	if len(cached.Spec.Tolerations) != maxTolerations || len(cached.Spec.Volumes) < 200 {
		t.Errorf("%d tolerations, %d claims", len(cached.Spec.Tolerations), len(cached.Spec.Volumes))
	}
	if again := small(t, pod).pod(); !reflect.DeepEqual(again, cached) {
		t.Error("what is cached of a pod is another part each time")
	}
}

// TestTrimPod_EndOfAPeriodOutOfRange: a pod from the cache whose grace period is longer than a time can be ends as late as one from the API server.
func TestTrimPod_EndOfAPeriodOutOfRange(t *testing.T) {
	pod := fullPod()
	pod.Annotations, pod.DeletionGracePeriodSeconds = nil, new(int64(1<<40))
	for _, pod := range []*corev1.Pod{pod, small(t, pod).pod()} {
		decision := drain.Decide(drain.Input{
			Node: &corev1.Node{}, Pods: []*corev1.Pod{pod}, Now: start.Add(time.Hour), Since: start,
			Options:         drain.Options{Deadline: time.Minute, Force: true},
			Budgets:         func(*corev1.Pod) []*policyv1.PodDisruptionBudget { return nil },
			DaemonSetExists: func(types.NamespacedName) bool { return false },
			LastAnswer:      func(types.UID) (drain.Answer, bool) { return drain.Answer{}, false },
		})
		if len(decision.Tasks) != 1 || decision.Tasks[0].Grace == nil {
			t.Errorf("created %s: it is not deleted, %s", pod.CreationTimestamp, decision.Report.Text())
		}
	}
}

// A pod from the cache has all fields that a drain needs.
func TestTrimPod(t *testing.T) {
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-1", UID: "uid", ResourceVersion: "7", Labels: map[string]string{"app": "web"},
			Annotations:       map[string]string{drain.AnnotationKarpenter: "1h", drain.AnnotationMirror: "x"},
			CreationTimestamp: metav1.Time{Time: start.Add(-2 * time.Hour)},
			DeletionTimestamp: &metav1.Time{Time: start}, DeletionGracePeriodSeconds: new(int64(5)), Finalizers: []string{"a/b"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{
			NodeName: "n1", TerminationGracePeriodSeconds: new(int64(60)), Priority: new(int32(9)),
			Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
			}}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: start.Add(-time.Hour)},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if got := small(t, fullPod()).pod(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	plain := small(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"},
		Status: corev1.PodStatus{StartTime: &metav1.Time{Time: start}}})
	if plain.rare != nil || plain.pod().Status.Conditions[0].Status != corev1.ConditionFalse || plain.pod().OwnerReferences != nil {
		t.Errorf("%+v", plain)
	}
	if key, err := cache.DeletionHandlingMetaNamespaceKeyFunc(plain); err != nil || key != "a/b" {
		t.Errorf("%s, %v", key, err)
	}
	if object, err := TrimPod(types.UID("x")); err != nil || object != types.UID("x") {
		t.Errorf("%v, %v", object, err)
	}
}

// Pods of a ReplicaSet share their labels: they are more than half of what the cache keeps of a pod.
func TestTrimPod_SharesLabels(t *testing.T) {
	labels := func(value string) uintptr {
		pod := fullPod()
		pod.Labels = map[string]string{"app": value}
		return reflect.ValueOf(small(t, pod).labels).Pointer()
	}
	web := labels("web")
	if labels("web") != web {
		t.Error("equal labels are not shared")
	}
	if labels("db") == web {
		t.Error("different labels are shared")
	}
}

func TestDiffers(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		want   bool
	}{
		"nothing":                 {func(p *corev1.Pod) { p.ResourceVersion = "8" }, false},
		"address":                 {func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.2" }, false},
		"another annotation":      {func(p *corev1.Pod) { p.Annotations["other"] = "z" }, false},
		"another condition":       {func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }, false},
		"ready":                   {func(p *corev1.Pod) { p.Status.Conditions[1].Status = corev1.ConditionFalse }, true},
		"phase":                   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, true},
		"deletion timestamp":      {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start.Add(-time.Second)} }, true},
		"finalizer":               {func(p *corev1.Pod) { p.Finalizers = nil }, true},
		"label":                   {func(p *corev1.Pod) { p.Labels["app"] = "db" }, true},
		"node":                    {func(p *corev1.Pod) { p.Spec.NodeName = "n2" }, true},
		"another pod":             {func(p *corev1.Pod) { p.UID = "x" }, true},
		"annotation of Karpenter": {func(p *corev1.Pod) { delete(p.Annotations, drain.AnnotationKarpenter) }, true},
	} {
		after := fullPod()
		c.change(after)
		if got := differs(small(t, fullPod()), small(t, after)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
