package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// Environment variables that every container of a Job gets.
const (
	EnvNode = "NODE_NAME"
	EnvRule = "MUTEX_RULE"
)

// Labels and annotations of Jobs.
const (
	// LabelRun holds the UID of the MutexRunConfig. Nodes of a run have it, too.
	LabelRun = "upgrade.drover.dev/run"
	// LabelKind holds a JobKind.
	LabelKind = "upgrade.drover.dev/kind"
	// AnnotationNode, AnnotationNodeUID, AnnotationRule and AnnotationVersion say what the Job is for; AnnotationAttempt counts retries.
	AnnotationNode    = "upgrade.drover.dev/node"
	AnnotationNodeUID = "upgrade.drover.dev/node-uid"
	AnnotationRule    = "upgrade.drover.dev/rule"
	AnnotationVersion = "upgrade.drover.dev/version"
	AnnotationAttempt = "upgrade.drover.dev/attempt"
)

// ParseJobSpec parses the spec of a Job that a rule declares. A field that Jobs do not have is an error: it may be a typing error.
func ParseJobSpec(raw *runtime.RawExtension) (*batchv1.JobSpec, error) {
	if raw == nil || len(raw.Raw) == 0 {
		return nil, errors.New("it is empty")
	}
	spec := &batchv1.JobSpec{}
	decoder := json.NewDecoder(bytes.NewReader(raw.Raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(spec); err != nil {
		return nil, fmt.Errorf("it is not the spec of a batch/v1 Job: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it is more than one object")
	}
	return spec, nil
}

// NewJob returns the Job of a rule for a node.
func NewJob(rule *v1alpha1.MutexRule, declared *batchv1.JobSpec, node *corev1.Node, id JobID) *batchv1.Job {
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rule.Spec.JobNamespace, Name: JobName(rule.Spec.JobName, id),
			Labels: map[string]string{LabelRun: string(id.Run), LabelKind: string(id.Kind)},
			Annotations: map[string]string{
				AnnotationNode: node.Name, AnnotationNodeUID: string(node.UID), AnnotationRule: id.Rule.String(), AnnotationVersion: id.Version,
				AnnotationAttempt: fmt.Sprint(id.Attempt),
			},
		},
		Spec: *declared.DeepCopy(),
	}
	// If it were deleted after its end, it would be run again. The time to live is set when the run is done.
	job.Spec.TTLSecondsAfterFinished = nil
	pod := &job.Spec.Template.Spec
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			containers[i].Env = withEnv(containers[i].Env, map[string]string{EnvNode: node.Name, EnvRule: rule.Name})
		}
	}
	pod.Affinity = awayFrom(pod.Affinity, node)
	return job
}

// JobIDOf returns what a Job of a run is for.
func JobIDOf(run types.UID, job *batchv1.Job) JobID {
	namespace, name, _ := strings.Cut(job.Annotations[AnnotationRule], "/")
	attempt, err := strconv.Atoi(job.Annotations[AnnotationAttempt])
	if err != nil {
		attempt = 0
	}
	return JobID{
		Run: run, Version: job.Annotations[AnnotationVersion], Node: types.UID(job.Annotations[AnnotationNodeUID]),
		Rule: types.NamespacedName{Namespace: namespace, Name: name}, Kind: JobKind(job.Labels[LabelKind]), Attempt: attempt,
	}
}

// ownJobs returns the Jobs with the namespace and name that Drover gives to the Jobs of the run. Labels and annotations are no proof: without an
// admission policy, a user who may create Jobs in any namespace could forge the result of a rule's Job.
func ownJobs(in *Input) map[types.NamespacedName]*batchv1.Job {
	own := make(map[types.NamespacedName]*batchv1.Job, len(in.Jobs))
	for key, job := range in.Jobs {
		id := JobIDOf(in.Config.UID, job)
		if rule := in.Rules[id.Rule]; rule != nil {
			if want := (types.NamespacedName{Namespace: rule.Spec.JobNamespace, Name: JobName(rule.Spec.JobName, id)}); key != want {
				continue
			}
		} else if !strings.HasSuffix(job.Name, JobName("", id)) {
			continue // of the name that a deleted rule had, only the end is known
		}
		own[key] = job
	}
	return own
}

// withEnv adds variables that are not set yet.
func withEnv(env []corev1.EnvVar, more map[string]string) []corev1.EnvVar {
	for _, name := range slices.Sorted(maps.Keys(more)) {
		if !slices.ContainsFunc(env, func(e corev1.EnvVar) bool { return e.Name == name }) {
			env = append(env, corev1.EnvVar{Name: name, Value: more[name]})
		}
	}
	return env
}

// awayFrom keeps pods off a node, in addition to what they require: the node is about to be drained.
func awayFrom(affinity *corev1.Affinity, node *corev1.Node) *corev1.Affinity {
	name := node.Labels[corev1.LabelHostname]
	if name == "" {
		name = node.Name
	}
	off := corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{name}}
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	if affinity.NodeAffinity == nil {
		affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		required = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}}
	}
	// One matching term is enough, so each of them gets the requirement. An empty term matches no node, and has to stay empty.
	single := len(required.NodeSelectorTerms) == 1 && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if !single && len(term.MatchExpressions) == 0 && len(term.MatchFields) == 0 {
			continue
		}
		term.MatchExpressions = append(term.MatchExpressions, off)
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	return affinity
}

// JobCondition returns the condition Complete or Failed of a Job if it is True, else nil.
func JobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		if c := &job.Status.Conditions[i]; c.Type == kind && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

// IsFinished reports whether a Job has succeeded or failed.
func IsFinished(job *batchv1.Job) bool {
	return hasFailed(job) || JobCondition(job, batchv1.JobComplete) != nil
}

func hasFailed(job *batchv1.Job) bool { return JobCondition(job, batchv1.JobFailed) != nil }
