package machineconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// patch writes a part of an object, given as a tree of JSON, unless the object has changed, and returns the answer. That is a new object: what is
// decoded into an old one leaves there the keys of maps that are gone.
func patch[T any, P interface {
	*T
	client.Object
}](ctx context.Context, s *Simulator, before P, metadata, rest map[string]any) (P, error) {
	guarded := map[string]any{"resourceVersion": before.GetResourceVersion()}
	maps.Copy(guarded, metadata)
	body := map[string]any{"metadata": guarded}
	maps.Copy(body, rest)
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	written := P(new(T))
	written.SetName(before.GetName())
	return written, s.client.Patch(ctx, written, client.RawPatch(types.MergePatchType, text))
}

// changes is a merge patch from one map to another; nil for none.
func changes(before, after map[string]string) map[string]any {
	patch := map[string]any{}
	for key, value := range after {
		if old, ok := before[key]; !ok || old != value {
			patch[key] = value
		}
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			patch[key] = nil
		}
	}
	return patch
}

// writeNode writes what is different, if anything is: labels, annotations and the cordon in one patch. Nothing else is touched.
func (s *Simulator) writeNode(ctx context.Context, before, after *corev1.Node) error {
	metadata, rest := map[string]any{}, map[string]any{}
	if patch := changes(before.Annotations, after.Annotations); len(patch) > 0 {
		metadata["annotations"] = patch
	}
	if patch := changes(before.Labels, after.Labels); len(patch) > 0 {
		metadata["labels"] = patch
	}
	if before.Spec.Unschedulable != after.Spec.Unschedulable {
		spec := map[string]any{"unschedulable": nil}
		if after.Spec.Unschedulable {
			spec["unschedulable"] = true
		}
		rest["spec"] = spec
	}
	if len(metadata) == 0 && len(rest) == 0 {
		return nil
	}
	written, err := patch(ctx, s, before, metadata, rest)
	if err != nil {
		return fmt.Errorf("node %s: %w", before.Name, err)
	}
	s.nodes.wrote(written)
	s.logProgress(before, written)
	return nil
}

// writeReady has a Node's status report that it is Ready, or that it is not, as its kubelet would.
func (s *Simulator) writeReady(ctx context.Context, node *corev1.Node, ready bool) error {
	status, reason := corev1.ConditionFalse, "KubeletNotReady"
	if ready {
		status, reason = corev1.ConditionTrue, "KubeletReady"
	}
	now := s.opts.Clock.Now().UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []any{map[string]any{
		"type": corev1.NodeReady, "status": status, "reason": reason, "message": "the machine-config simulator reboots it",
		"lastHeartbeatTime": now, "lastTransitionTime": now,
	}}}})
	if err != nil {
		return err
	}
	written := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	if err := s.client.Status().Patch(ctx, written, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
		return fmt.Errorf("the status of node %s: %w", node.Name, err)
	}
	s.nodes.wrote(written)
	return nil
}

// logProgress logs what a Node does now.
func (s *Simulator) logProgress(before, after *corev1.Node) {
	from, to := before.Annotations, after.Annotations
	step, _ := stepOf(after)
	switch {
	case from[openshift.AnnotationDesiredConfig] != to[openshift.AnnotationDesiredConfig]:
		s.logf("node %s: is to run %s", after.Name, to[openshift.AnnotationDesiredConfig])
	case from[openshift.AnnotationState] != to[openshift.AnnotationState] && to[openshift.AnnotationState] == openshift.StateDegraded:
		s.logf("node %s: degraded: %s", after.Name, to[openshift.AnnotationReason])
	case from[openshift.AnnotationStep] != to[openshift.AnnotationStep] && step == "":
		s.logf("node %s: runs %s", after.Name, to[openshift.AnnotationCurrentConfig])
	case from[openshift.AnnotationStep] != to[openshift.AnnotationStep]:
		s.logf("node %s: %s", after.Name, step)
	}
}

// logf writes a line with the time.
func (s *Simulator) logf(format string, args ...any) {
	if s.opts.Log != nil {
		line := fmt.Sprintf(format, args...)
		_, _ = fmt.Fprintf(s.opts.Log, "%s %s\n", s.opts.Clock.Now().UTC().Format("15:04:05.000"), line)
	}
}

// ignoreNotFound is for objects that went away meanwhile.
func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
