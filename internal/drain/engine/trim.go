package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/compact"
	"github.com/drover-io/drover/internal/drain"
)

// smallPod has the fields of a pod that a drain needs. Strings that many pods share are stored once.
type smallPod struct {
	namespace, name, version, node string
	uid                            types.UID
	labels                         map[string]string
	phase                          corev1.PodPhase
	ownerVersion                   string
	ownerKind, ownerName           string
	// created is in seconds since 1970.
	created                      int64
	grace                        int64
	priority                     int32
	hasGrace, hasPriority, ready bool
	// tolerations are, as JSON, the lasting tolerations of taints with the effect NoExecute, and the tolerations of the cordon. Most pods have none.
	tolerations string
	// rare is nil for most pods.
	rare *rarePart
}

type rarePart struct {
	ends        *metav1.Time
	endsWithin  *int64
	finalizers  []string
	annotations map[string]string
	claims      []string
	started     *metav1.Time
}

// sharedLabels are the labels that all pods of a ReplicaSet have in common.
var sharedLabels compact.Maps

// TrimPod is the transform of the cache of pods, which may have 50,000 of them.
func TrimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	small := &smallPod{
		namespace: compact.Text(pod.Namespace), name: pod.Name, version: pod.ResourceVersion, node: compact.Text(pod.Spec.NodeName), uid: pod.UID,
		created: pod.CreationTimestamp.Unix(),
		phase:   compact.Text(pod.Status.Phase), labels: sharedLabels.Share(cutLabels(pod.Labels)), rare: rareOf(pod),
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		small.ownerVersion = compact.Text(bounded.Text(owner.APIVersion, maxName))
		small.ownerKind, small.ownerName = compact.Text(bounded.Text(owner.Kind, maxName)), compact.Text(bounded.Text(owner.Name, maxName))
	}
	if grace := pod.Spec.TerminationGracePeriodSeconds; grace != nil {
		small.hasGrace, small.grace = true, *grace
	}
	if priority := pod.Spec.Priority; priority != nil {
		small.hasPriority, small.priority = true, *priority
	}
	if lasting := lastingTolerations(pod); len(lasting) > 0 {
		text, err := json.Marshal(lasting)
		if err != nil {
			return nil, fmt.Errorf("encoding the tolerations of pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
		small.tolerations = compact.Text(string(text))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			small.ready = condition.Status == corev1.ConditionTrue
		}
	}
	return small, nil
}

// lastingTolerations returns the tolerations that keep a pod on a node with a taint of the effect NoExecute for as long as it has the taint, and the
// tolerations that let a pod come to a cordoned node.
func lastingTolerations(pod *corev1.Pod) (lasting []corev1.Toleration) {
	for _, toleration := range pod.Spec.Tolerations {
		keeps := toleration.Effect == "" || toleration.Effect == corev1.TaintEffectNoExecute
		if toleration.TolerationSeconds == nil && (keeps || toleration.Key == corev1.TaintNodeUnschedulable || toleration.Key == "") {
			lasting = append(lasting, toleration)
		}
	}
	return lasting[:min(len(lasting), maxTolerations)]
}

// These bound what is cached of a pod, since tenants write it. No valid annotation or name is longer, and a drain only names the finalizers. A pod is
// treated as if it did not have the labels, tolerations and claims that exceed the bounds; its eviction still needs the consent of all budgets.
const (
	maxAnnotation  = 64       // bytes of one
	maxName        = 253      // bytes of the name of an object
	maxFinalizers  = 10       // number of them
	maxTolerations = 32       // number of those that last
	maxLabels      = 4 << 10  // bytes of all keys and values
	maxClaims      = 16 << 10 // bytes of the names of all
)

// cutLabels returns the labels of a pod. If they are too large together it returns the first ones in the order of their keys.
func cutLabels(labels map[string]string) map[string]string {
	size := 0
	for key, value := range labels {
		size += len(key) + len(value)
	}
	if size <= maxLabels {
		return labels
	}
	kept, size := map[string]string{}, 0
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if size += len(key) + len(labels[key]); size > maxLabels {
			break
		}
		kept[key] = labels[key]
	}
	return kept
}

// rareOf returns the fields that few pods have; nil when the pod has none of them.
func rareOf(pod *corev1.Pod) *rarePart {
	rare := &rarePart{ends: pod.DeletionTimestamp, endsWithin: pod.DeletionGracePeriodSeconds}
	rare.finalizers = slices.Clone(pod.Finalizers[:min(len(pod.Finalizers), maxFinalizers)])
	for _, key := range []string{drain.AnnotationMirror, drain.AnnotationKarpenter} {
		if value, ok := pod.Annotations[key]; ok {
			if rare.annotations == nil {
				rare.annotations = map[string]string{}
			}
			rare.annotations[key] = bounded.Text(value, maxAnnotation)
			// The duration of Karpenter's annotation starts then.
			rare.started = pod.Status.StartTime
		}
	}
	rare.claims = claimsOf(pod)
	if rare.ends == nil && len(rare.finalizers) == 0 && rare.annotations == nil && rare.claims == nil {
		return nil
	}
	return rare
}

func claimsOf(pod *corev1.Pod) (claims []string) {
	size := 0
	for i := range pod.Spec.Volumes {
		claim := pod.Spec.Volumes[i].PersistentVolumeClaim
		if claim == nil {
			continue
		}
		if size += len(claim.ClaimName); size > maxClaims {
			break
		}
		claims = append(claims, claim.ClaimName)
	}
	return claims
}

// GetObjectMeta returns what an informer needs to identify the pod.
func (p *smallPod) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: p.uid, ResourceVersion: p.version}
}

// pod returns a Pod with the fields that a drain needs.
func (p *smallPod) pod() *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: p.name, UID: p.uid, ResourceVersion: p.version, Labels: p.labels},
		Spec:       corev1.PodSpec{NodeName: p.node},
		Status: corev1.PodStatus{
			Phase: p.phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}},
		},
	}
	if p.created > 0 {
		pod.CreationTimestamp = metav1.Time{Time: time.Unix(p.created, 0).UTC()}
	}
	if p.ready {
		pod.Status.Conditions[0].Status = corev1.ConditionTrue
	}
	if p.ownerKind != "" {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: p.ownerVersion, Kind: p.ownerKind, Name: p.ownerName, Controller: new(true)}}
	}
	if p.hasGrace {
		pod.Spec.TerminationGracePeriodSeconds = &p.grace
	}
	if p.hasPriority {
		pod.Spec.Priority = &p.priority
	}
	if p.tolerations != "" {
		// What cannot be read tolerates nothing; it was written here.
		_ = json.Unmarshal([]byte(p.tolerations), &pod.Spec.Tolerations)
	}
	if p.rare != nil {
		p.rare.add(pod)
	}
	return pod
}

func (r *rarePart) add(pod *corev1.Pod) {
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds, pod.Finalizers = r.ends, r.endsWithin, r.finalizers
	pod.Annotations, pod.Status.StartTime = r.annotations, r.started
	for _, claim := range r.claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}},
		})
	}
}

// differs reports whether two versions of a pod differ in a field that a drain needs.
func differs(before, after *smallPod) bool {
	a, b := before.rare, after.rare
	if a == nil {
		a = &rarePart{}
	}
	if b == nil {
		b = &rarePart{}
	}
	return before.uid != after.uid || before.node != after.node || before.phase != after.phase || before.ready != after.ready ||
		before.tolerations != after.tolerations ||
		!maps.Equal(before.labels, after.labels) || !a.ends.Equal(b.ends) || !slices.Equal(a.finalizers, b.finalizers) ||
		!maps.Equal(a.annotations, b.annotations)
}
