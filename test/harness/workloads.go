package harness

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// AppLabel is on all pods of a workload, with its name.
const AppLabel = "app"

// CompletionDelay is the annotation that lets a pod finish so long after it was Ready. A test sets it on a pod that runs to let it finish then.
const CompletionDelay = "test.drover.dev/completion-delay"

// Annotations of pods that kwok acts on; see files/kwok.yaml of test/cluster.
const (
	readyDelay       = "test.drover.dev/ready-delay"
	terminationDelay = "test.drover.dev/termination-delay"
)

// Ways for pods to end.
const (
	// AtOnce is how pods end that say nothing else.
	AtOnce = ""
	// AtGrace is at the end of the grace period.
	AtGrace = "grace"
	// Never is a delay longer than any test.
	Never = "1000h"
)

// Pods says what the pods of a workload are like. The zero value is one pod on any Node of the site, ready at once, that never
// finishes and ends at once when it is deleted.
type Pods struct {
	// Replicas counts as 1 when it is 0.
	Replicas int32
	// Node is where they have to run; empty is any Node of the site.
	Node string
	// Ends, Ready and Completes are how long the pods take for it: a length of time, or one of the words above.
	Ends, Ready, Completes string
	// Grace is their grace period in seconds, 0 for the default of 30.
	Grace int64
	// Priority is theirs; other than 0 it needs a PriorityClass, which is made.
	Priority int32
	// Tolerant pods run on any tainted Node, too.
	Tolerant bool
	// Tolerations are theirs in addition.
	Tolerations []corev1.Toleration

	Labels, Annotations map[string]string
	Finalizers          []string
	// Claim is the name of a PersistentVolumeClaim that they use.
	Claim string
}

func (p *Pods) replicas() *int32 { return new(max(p.Replicas, 1)) }

func selector(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{AppLabel: name}}
}

// template makes the pods' template.
func (s *Site) template(name string, p Pods) corev1.PodTemplateSpec {
	s.Helper()
	annotations := map[string]string{}
	for key, value := range map[string]string{readyDelay: p.Ready, CompletionDelay: p.Completes, terminationDelay: p.Ends} {
		if value != "" {
			annotations[key] = value
		}
	}
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels: merged(p.Labels, map[string]string{AppLabel: name}), Annotations: merged(annotations, p.Annotations), Finalizers: p.Finalizers,
		},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "workload", Image: "sandbox.invalid/workload"}},
			// There is no kubelet that could mount the token's volume.
			AutomountServiceAccountToken: new(false),
			NodeSelector:                 map[string]string{SiteLabel: s.Name},
			PriorityClassName:            s.priorityClass(p.Priority),
		},
	}
	if p.Node != "" {
		t.Spec.NodeSelector[corev1.LabelHostname] = p.Node
	}
	if p.Grace != 0 {
		t.Spec.TerminationGracePeriodSeconds = &p.Grace
	}
	t.Spec.Tolerations = p.Tolerations
	if p.Tolerant {
		t.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	if p.Claim != "" {
		t.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: p.Claim},
		}}}
	}
	return t
}

// priorityClass returns the name of a class with a value. Classes are for all tests and stay.
func (s *Site) priorityClass(value int32) string {
	s.Helper()
	if value == 0 {
		return ""
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "p" + strconv.Itoa(int(value))}, Value: value}
	if err := s.Client.Create(s.Context(), class); err != nil && !apierrors.IsAlreadyExists(err) {
		s.Fatalf("making a PriorityClass: %v", err)
	}
	return class.Name
}

func (s *Site) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Name, Name: name, Labels: map[string]string{AppLabel: name}}
}

// Deployment makes one and waits until its pods are there.
func (s *Site) Deployment(name string, p Pods) []corev1.Pod {
	s.Helper()
	s.create(&appsv1.Deployment{ObjectMeta: s.meta(name), Spec: appsv1.DeploymentSpec{
		Replicas: p.replicas(), Selector: selector(name), Template: s.template(name, p),
	}})
	return s.Running(name, int(*p.replicas()), p.Ready == "")
}

// StatefulSet makes one and waits until its pods are there.
func (s *Site) StatefulSet(name string, p Pods) []corev1.Pod {
	s.Helper()
	s.create(&appsv1.StatefulSet{ObjectMeta: s.meta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: p.replicas(), Selector: selector(name), Template: s.template(name, p), ServiceName: name,
		PodManagementPolicy: appsv1.ParallelPodManagement,
	}})
	return s.Running(name, int(*p.replicas()), p.Ready == "")
}

// Job makes one and waits until its pods are there.
func (s *Site) Job(name string, p Pods) []corev1.Pod {
	s.Helper()
	template := s.template(name, p)
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.create(&batchv1.Job{ObjectMeta: s.meta(name), Spec: batchv1.JobSpec{
		Parallelism: p.replicas(), Completions: p.replicas(), Template: template,
	}})
	return s.Running(name, int(*p.replicas()), p.Ready == "")
}

// DaemonSet makes one and waits until it has a pod on so many Nodes.
func (s *Site) DaemonSet(name string, nodes int, p Pods) []corev1.Pod {
	s.Helper()
	s.create(&appsv1.DaemonSet{ObjectMeta: s.meta(name), Spec: appsv1.DaemonSetSpec{
		Selector: selector(name), Template: s.template(name, p),
	}})
	return s.Running(name, nodes, p.Ready == "")
}

// Pod makes a pod without a controller, bound to its Node from the start, and waits until it runs.
func (s *Site) Pod(name string, p Pods) corev1.Pod {
	s.Helper()
	s.BarePod(name, p)
	return s.Running(name, 1, p.Ready == "")[0]
}

// BarePod is Pod without the waiting.
func (s *Site) BarePod(name string, p Pods) {
	s.Helper()
	template := s.template(name, p)
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.Spec.NodeName = s.Name, name, p.Node
	s.Eventually("creating pod "+name, func() error {
		err := s.Client.Create(s.Context(), pod)
		if err != nil && (!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "no PriorityClass")) {
			s.Fatalf("creating pod %s: %v", name, err)
		}
		return err // the admission does not know the class yet
	})
}

// StaticPod makes the API's image of a pod that the kubelet of a Node runs from a file.
func (s *Site) StaticPod(name, node string) corev1.Pod {
	s.Helper()
	template := s.template(name, Pods{Node: node, Tolerant: true})
	pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	pod.Namespace, pod.Name, pod.Spec.NodeName = s.Name, name, node
	pod.Annotations = merged(pod.Annotations, map[string]string{
		corev1.MirrorPodAnnotationKey: "hash", "kubernetes.io/config.source": "file", "kubernetes.io/config.hash": "hash",
	})
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "Node", Name: node, UID: s.Node(node).UID, Controller: new(true),
	}}
	s.create(pod)
	return s.Running(name, 1, true)[0]
}

// Running waits until so many pods of a workload are on Nodes and run, and ready if that is asked, and none else is there. It returns
// them sorted by name.
func (s *Site) Running(app string, count int, ready bool) []corev1.Pod {
	s.Helper()
	var pods []corev1.Pod
	s.Eventually(fmt.Sprintf("%d pods of %s/%s", count, s.Name, app), func() error {
		pods = s.Pods(app)
		fine := 0
		for i := range pods {
			s.nudge(&pods[i])
			if pods[i].DeletionTimestamp == nil && pods[i].Status.Phase == corev1.PodRunning && (!ready || isReady(&pods[i])) {
				fine++
			}
		}
		if fine != count || len(pods) != count {
			return fmt.Errorf("%d of %d are fine: %s", fine, len(pods), describe(pods))
		}
		return nil
	})
	return pods
}

// overlooked is the age when nudge acts on a pod that kwok has not begun to run although it manages the pod's node: kwok sometimes misses a pod that
// is created while kwok takes over the node.
const overlooked = 10 * time.Second

// nudge has kwok look at such a pod again.
func (s *Site) nudge(pod *corev1.Pod) {
	const annotation = "test.drover.dev/nudged"
	if pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodPending || pod.Annotations[annotation] != "" ||
		time.Since(pod.CreationTimestamp.Time) < overlooked {
		return
	}
	s.Logf("pod %s is on its node and does not run: kwok gets another event", pod.Name)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+annotation+`":"yes"}}}`))
	if err := s.Client.Patch(s.Context(), pod.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
		s.Error(err)
	}
}

// Pods lists the pods of a workload by name.
func (s *Site) Pods(app string) []corev1.Pod {
	s.Helper()
	var list corev1.PodList
	if err := s.Client.List(s.Context(), &list, client.InNamespace(s.Name), client.MatchingLabels{AppLabel: app}); err != nil {
		s.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// GetPod reads a pod of the site.
func (s *Site) GetPod(name string) *corev1.Pod {
	s.Helper()
	return read(s.World, s.Name, name, &corev1.Pod{})
}

// Settled waits until a workload has so many ready pods again, none of them on a Node.
func (s *Site) Settled(app string, count int, avoided string) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%d pods of %s/%s away from %s", count, s.Name, app, avoided), func() error {
		pods, fine := s.Pods(app), 0
		for i := range pods {
			if pods[i].Spec.NodeName == avoided {
				return fmt.Errorf("%s is on it: %s", pods[i].Name, describe(pods))
			}
			if pods[i].DeletionTimestamp == nil && isReady(&pods[i]) {
				fine++
			}
			s.nudge(&pods[i])
		}
		if fine < count {
			return fmt.Errorf("%d are ready: %s", fine, describe(pods))
		}
		return nil
	})
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func describe(pods []corev1.Pod) string {
	var texts []string
	for i := range pods {
		text := fmt.Sprintf("%s on %q %s", pods[i].Name, pods[i].Spec.NodeName, pods[i].Status.Phase)
		if isReady(&pods[i]) {
			text += " ready"
		}
		if at := pods[i].DeletionTimestamp; at != nil {
			text += " ending at " + at.Format(time.TimeOnly)
		}
		texts = append(texts, text)
	}
	return fmt.Sprint(texts)
}
