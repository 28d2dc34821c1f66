package kubelet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// nodeAnnotation marks the Nodes that kwok plays.
const (
	nodeAnnotation      = "kwok.x-k8s.io/node"
	nodeAnnotationValue = "fake"
)

// workers is the number of patches in flight.
const workers = 4

// byNode is the index of Pods by the name of their Node.
const byNode = "node"

// readinessReporter restores the condition Ready of Pods.
type readinessReporter struct {
	client kubernetes.Interface
	pods   cache.SharedIndexInformer
	nodes  cache.SharedIndexInformer
	queue  workqueue.TypedRateLimitingInterface[string]
}

// ReportReadiness gives the Pods of Nodes that kwok plays their condition Ready back, until the context ends. The node lifecycle controller of
// kube-controller-manager sets Ready to False when a Node is not Ready (MarkPodsNotReady in pkg/controller/util/node) and never back: the status
// manager of a kubelet does that as soon as it sees that the API server differs from what it knows (needsReconcile in pkg/kubelet/status).
func ReportReadiness(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.ContentType, config.UserAgent = runtime.ContentTypeProtobuf, "kubelet-readiness"
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	r, err := newReadinessReporter(client)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

func newReadinessReporter(client kubernetes.Interface) (*readinessReporter, error) {
	running := informers.WithTweakListOptions(func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector("status.phase", string(corev1.PodRunning)).String()
	})
	r := &readinessReporter{
		client: client,
		pods:   informers.NewSharedInformerFactoryWithOptions(client, 0, running).Core().V1().Pods().Informer(),
		nodes:  informers.NewSharedInformerFactory(client, 0).Core().V1().Nodes().Informer(),
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]()),
	}
	if err := r.pods.SetTransform(trimPod); err != nil {
		return nil, fmt.Errorf("watching Pods: %w", err)
	}
	if err := r.nodes.SetTransform(trimNode); err != nil {
		return nil, fmt.Errorf("watching Nodes: %w", err)
	}
	if err := r.pods.AddIndexers(cache.Indexers{byNode: nodeOfPod}); err != nil {
		return nil, fmt.Errorf("watching Pods: %w", err)
	}
	if _, err := r.pods.AddEventHandler(handler(r.enqueuePod)); err != nil {
		return nil, fmt.Errorf("watching Pods: %w", err)
	}
	if _, err := r.nodes.AddEventHandler(handler(r.enqueuePodsOf)); err != nil {
		return nil, fmt.Errorf("watching Nodes: %w", err)
	}
	return r, nil
}

// handler calls a function with each object that is added or updated.
func handler(changed func(object any)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }}
}

func (r *readinessReporter) run(ctx context.Context) error {
	go r.pods.RunWithContext(ctx)
	go r.nodes.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), r.pods.HasSynced, r.nodes.HasSynced) {
		return ctx.Err()
	}
	for range workers {
		go func() {
			for r.next(ctx) {
			}
		}()
	}
	<-ctx.Done()
	r.queue.ShutDown()
	return nil
}

func (r *readinessReporter) enqueuePod(object any) {
	if pod, ok := object.(*corev1.Pod); ok && lostReady(pod) {
		r.queue.Add(cache.MetaObjectToName(pod).String())
	}
}

// enqueuePodsOf enqueues the Pods of a Node that is Ready.
func (r *readinessReporter) enqueuePodsOf(object any) {
	node, ok := object.(*corev1.Node)
	if !ok || !isPlayedAndReady(node) {
		return
	}
	pods, err := r.pods.GetIndexer().ByIndex(byNode, node.Name)
	if err != nil {
		klog.ErrorS(err, "Listing the Pods of a Node", "node", node.Name)
		return
	}
	for _, pod := range pods {
		r.enqueuePod(pod)
	}
}

func (r *readinessReporter) next(ctx context.Context) bool {
	key, shutdown := r.queue.Get()
	if shutdown {
		return false
	}
	defer r.queue.Done(key)
	if err := r.reconcile(ctx, key); err != nil {
		klog.ErrorS(err, "Reporting a Pod as Ready again", "pod", key)
		r.queue.AddRateLimited(key)
		return true
	}
	r.queue.Forget(key)
	return true
}

// reconcile sets Ready to True where the Pod lost it and its Node is Ready. A conflict needs no retry: the update that caused it enqueues the Pod.
func (r *readinessReporter) reconcile(ctx context.Context, key string) error {
	object, exists, err := r.pods.GetStore().GetByKey(key)
	if err != nil || !exists {
		return err
	}
	pod, ok := object.(*corev1.Pod)
	if !ok || !lostReady(pod) {
		return nil
	}
	object, exists, err = r.nodes.GetStore().GetByKey(pod.Spec.NodeName)
	if err != nil || !exists {
		return err // the Node's own event enqueues its Pods
	}
	if node, ok := object.(*corev1.Node); !ok || !isPlayedAndReady(node) {
		return nil
	}
	patch, err := readyPatch(pod, time.Now())
	if err != nil {
		return err
	}
	_, err = r.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// readyPatch sets the condition Ready of the Pod as it was read to True.
func readyPatch(pod *corev1.Pod, now time.Time) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
		"status": map[string]any{"conditions": []any{map[string]any{
			"type": corev1.PodReady, "status": corev1.ConditionTrue, "lastTransitionTime": now.UTC().Format(time.RFC3339), "reason": nil, "message": nil,
		}}},
	})
}

// lostReady reports whether a kubelet would report the Pod as Ready and the API server does not have it so: all containers are ready, and so are
// the Pod's readiness gates (GeneratePodReadyCondition in pkg/kubelet/status).
func lostReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || hasCondition(pod, corev1.PodReady) {
		return false
	}
	return hasCondition(pod, corev1.ContainersReady) && !slices.ContainsFunc(pod.Spec.ReadinessGates, func(gate corev1.PodReadinessGate) bool {
		return !hasCondition(pod, gate.ConditionType)
	})
}

func hasCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}

// isPlayedAndReady reports whether kwok plays the Node and the Node is Ready.
func isPlayedAndReady(node *corev1.Node) bool {
	return node.Annotations[nodeAnnotation] == nodeAnnotationValue && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

func nodeOfPod(object any) ([]string, error) {
	if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// trimPod keeps what lostReady and the patch read: a benchmark has 50,000 Pods.
func trimPod(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion, DeletionTimestamp: pod.DeletionTimestamp,
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, ReadinessGates: pod.Spec.ReadinessGates},
		Status: corev1.PodStatus{Phase: pod.Status.Phase, Conditions: pod.Status.Conditions},
	}, nil
}

// trimNode keeps what isPlayedAndReady reads.
func trimNode(object any) (any, error) {
	node, ok := object.(*corev1.Node)
	if !ok {
		return object, nil
	}
	trimmed := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion},
		Status:     corev1.NodeStatus{Conditions: node.Status.Conditions},
	}
	if value, ok := node.Annotations[nodeAnnotation]; ok {
		trimmed.Annotations = map[string]string{nodeAnnotation: value}
	}
	return trimmed, nil
}
