package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
)

// How much of a Job's log an event shows.
const logLines, logBytes = 10, 2048

// PodLogs returns the function that reads the last lines of the log of a Job's newest pod.
func PodLogs(pods coreclient.PodsGetter) func(ctx context.Context, job *batchv1.Job) (string, error) {
	return func(ctx context.Context, job *batchv1.Job) (string, error) {
		list, err := pods.Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name, ResourceVersion: "0"})
		if err != nil {
			return "", fmt.Errorf("listing its pods: %w", err)
		}
		if len(list.Items) == 0 {
			return "", fmt.Errorf("it has no pod")
		}
		newest := slices.MaxFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
		options := &corev1.PodLogOptions{TailLines: new(int64(logLines)), LimitBytes: new(int64(logBytes)), Container: failedContainer(&newest)}
		text, err := pods.Pods(job.Namespace).GetLogs(newest.Name, options).DoRaw(ctx)
		return strings.TrimSpace(string(text)), err
	}
}

// failedContainer returns the container that has failed, or else the first one.
func failedContainer(pod *corev1.Pod) string {
	for _, state := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if state.State.Terminated != nil && state.State.Terminated.ExitCode != 0 {
			return state.Name
		}
	}
	return pod.Spec.Containers[0].Name
}
