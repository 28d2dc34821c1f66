package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/drover-io/drover/test/cluster"
)

// JobManager in spec.managedBy has the tests end a Job. The controller of Kubernetes takes more than a second for each, and there are hundreds.
const JobManager = "drover.dev/tests"

// annotationOutcome is an annotation of a Job's pod template: how long the Job takes, or JobFails. A Job without a value never ends.
const annotationOutcome = "test.drover.dev/outcome"

// JobFails is the outcome of a Job that fails, after failsAfter.
const (
	JobFails   = "fails"
	failsAfter = 200 * time.Millisecond
)

// RunJobs ends the Jobs that are managed by the tests, until the context ends.
func RunJobs(ctx context.Context, c *cluster.Cluster) error {
	clients, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	informer := factory.Batch().V1().Jobs().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		job, ok := object.(*batchv1.Job)
		if !ok || job.Spec.ManagedBy == nil || *job.Spec.ManagedBy != JobManager || len(job.Status.Conditions) > 0 {
			return
		}
		outcome := job.Spec.Template.Annotations[annotationOutcome]
		delay, err := time.ParseDuration(outcome)
		if outcome == JobFails {
			delay = failsAfter
		} else if err != nil {
			return
		}
		time.AfterFunc(delay, func() {
			_, err := clients.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, endedJob(job, outcome != JobFails), metav1.UpdateOptions{})
			if err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) {
				fmt.Fprintf(os.Stderr, "ending Job %s: %v\n", job.Name, err)
			}
		})
	}})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return nil
}

// endedJob returns a Job as its controller leaves it.
func endedJob(job *batchv1.Job, well bool) *batchv1.Job {
	now := metav1.Now()
	done := job.DeepCopy()
	done.Status = batchv1.JobStatus{StartTime: &now, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{}}
	kinds := []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
	if well {
		kinds = []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
		done.Status.CompletionTime, done.Status.Succeeded = &now, 1
	}
	for _, kind := range kinds {
		done.Status.Conditions = append(done.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: now, Message: "as the test says",
		})
	}
	return done
}

// JobSpec returns the spec of a Job that Kubernetes runs, with an outcome for RunJobs. change may set who manages it.
func JobSpec(outcome string, change func(*batchv1.JobSpec)) runtime.RawExtension {
	spec := batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationOutcome: outcome}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			Containers:  []corev1.Container{{Name: "check", Image: "sandbox.invalid/check"}, {Name: "second", Image: "sandbox.invalid/check"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}}
	change(&spec)
	text, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("harness: rendering a Job: %v", err))
	}
	return runtime.RawExtension{Raw: text}
}

// ManagedJob returns the spec of a Job that RunJobs ends.
func ManagedJob(outcome string) runtime.RawExtension {
	return JobSpec(outcome, func(spec *batchv1.JobSpec) { spec.ManagedBy = new(JobManager) })
}
