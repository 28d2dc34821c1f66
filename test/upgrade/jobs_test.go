package upgrade

import (
	"context"
	"fmt"
	"os"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// managedBy has the tests end a Job. The controller of Kubernetes takes more than a second for each, and there are hundreds.
const managedBy = "drover.dev/tests"

// annotationOutcome a Job is an annotation of its pods' template: how long it takes, "fails", or nothing for one that never ends.
const annotationOutcome = "test.drover.dev/outcome"

const (
	fails      = "fails"
	failsAfter = 200 * time.Millisecond
)

// runJobs ends the Jobs that are managed by the tests, until the context ends.
func runJobs(ctx context.Context) error {
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(clients, 0)
	informer := factory.Batch().V1().Jobs().Informer()
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		job, ok := object.(*batchv1.Job)
		if !ok || job.Spec.ManagedBy == nil || *job.Spec.ManagedBy != managedBy || len(job.Status.Conditions) > 0 {
			return
		}
		outcome := job.Spec.Template.Annotations[annotationOutcome]
		delay, err := time.ParseDuration(outcome)
		if outcome == fails {
			delay = failsAfter
		} else if err != nil {
			return
		}
		time.AfterFunc(delay, func() {
			_, err := clients.BatchV1().Jobs(job.Namespace).UpdateStatus(ctx, ended(job, outcome != fails), metav1.UpdateOptions{})
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

// ended returns a Job as its controller leaves it.
func ended(job *batchv1.Job, well bool) *batchv1.Job {
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
