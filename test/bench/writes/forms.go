package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/test/cluster"
)

// The label, annotation and taint that each write changes.
const (
	label      = "bench.drover.dev/round"
	annotation = "bench.drover.dev/record"
	taint      = "bench.drover.dev/taint"
)

// Content types of answers.
const (
	answerJSON         = runtime.ContentTypeJSON
	answerProtobuf     = runtime.ContentTypeProtobuf
	answerMetadata     = runtime.ContentTypeJSON + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
	answerMetadataProt = runtime.ContentTypeProtobuf + ";as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
)

// form is one way to write.
type form struct {
	Kind, Name string

	method, content, answer string
	body                    func(o *unstructured.Unstructured, value string) ([]byte, error)
	// route is how the requests reach the server.
	route string
}

// key identifies a form.
func (f *form) key() string { return f.Kind + ": " + f.Name }

// Routes to the server.
const (
	routeDefault = ""
	routeFour    = "four HTTP/2 connections"
	routeHTTP1   = "a connection for each writer, HTTP/1.1"
	routeExempt  = "exempt from priority and fairness"
)

// plain is the form that the others are compared with.
const plain = "merge patch"

// forms returns all forms of a kind, the one first that the others are compared with.
func forms(kind string) []form {
	patch := func(name string, content types.PatchType, answer string, body func(*unstructured.Unstructured, string) ([]byte, error)) form {
		return form{Kind: kind, Name: name, method: http.MethodPatch, content: string(content), answer: answer, body: body}
	}
	update := func(name, content string, body func(*unstructured.Unstructured, string) ([]byte, error)) form {
		return form{Kind: kind, Name: name, method: http.MethodPut, content: content, answer: answerMetadata, body: body}
	}
	all := []form{
		patch(plain, types.MergePatchType, answerMetadata, mergePatch),
		patch("merge patch, whole answer", types.MergePatchType, answerJSON, mergePatch),
		patch("merge patch, answer in protobuf", types.MergePatchType, answerMetadataProt, mergePatch),
		patch("JSON patch with tests", types.JSONPatchType, answerMetadata, jsonPatch),
		patch("apply patch", types.ApplyYAMLPatchType, answerMetadata, applyPatch),
		patch("apply patch in CBOR", types.ApplyCBORPatchType, answerMetadata, applyPatchCBOR),
		update("update", runtime.ContentTypeJSON, updateJSON),
		update("update in CBOR", runtime.ContentTypeCBOR, updateCBOR),
	}
	if kind == "Node" {
		all = append(all,
			patch("merge patch, whole answer in protobuf", types.MergePatchType, answerProtobuf, mergePatch),
			patch("strategic merge patch", types.StrategicMergePatchType, answerMetadata, mergePatch),
			update("update in protobuf", runtime.ContentTypeProtobuf, updateProtobuf))
	}
	for _, route := range []string{routeFour, routeHTTP1, routeExempt} {
		f := all[0]
		f.Name, f.route = plain+", "+route, route
		all = append(all, f)
	}
	return all
}

// path returns the path of an object.
func path(o *unstructured.Unstructured) string {
	if o.GetKind() == "Node" {
		return "/api/v1/nodes/" + o.GetName()
	}
	return "/apis/" + machinev1beta1.GroupVersion.String() + "/namespaces/" + cluster.MachineNamespace + "/machines/" + o.GetName()
}

func taintsOf(value string) []any {
	return []any{map[string]any{"key": taint, "value": value, "effect": string(corev1.TaintEffectPreferNoSchedule)}}
}

// changes returns what a write changes, with metadata beyond labels and annotations.
func changes(o *unstructured.Unstructured, value string, metadata map[string]any) map[string]any {
	metadata["resourceVersion"] = o.GetResourceVersion()
	changed := map[string]any{"metadata": metadata}
	entries := map[string]any{"labels": map[string]any{label: value}, "annotations": map[string]any{annotation: value}}
	if o.GetKind() == "Node" {
		maps.Copy(metadata, entries)
		changed["spec"] = map[string]any{"taints": taintsOf(value)}
	} else {
		changed["spec"] = map[string]any{"metadata": entries, "taints": taintsOf(value)}
	}
	return changed
}

// mergePatch fails if the object has another version.
func mergePatch(o *unstructured.Unstructured, value string) ([]byte, error) {
	return json.Marshal(changes(o, value, map[string]any{}))
}

// jsonPatch fails if one of the values is another.
func jsonPatch(o *unstructured.Unstructured, value string) ([]byte, error) {
	prefix := "/metadata"
	fields := []string{"metadata"}
	if o.GetKind() != "Node" {
		prefix, fields = "/spec/metadata", []string{"spec", "metadata"}
	}
	steps := []map[string]any{{"op": "test", "path": "/metadata/uid", "value": o.GetUID()}}
	add := func(at string, key string, wanted any, now ...string) {
		current, found, err := unstructured.NestedFieldNoCopy(o.Object, now...)
		if err == nil && found {
			steps = append(steps, map[string]any{"op": "test", "path": at + key, "value": current})
		}
		steps = append(steps, map[string]any{"op": "add", "path": at + key, "value": wanted})
	}
	for _, entry := range []struct{ field, key, escaped string }{
		{"labels", label, "bench.drover.dev~1round"}, {"annotations", annotation, "bench.drover.dev~1record"},
	} {
		path := append(slices.Clone(fields), entry.field)
		if _, found, err := unstructured.NestedMap(o.Object, path...); err != nil || !found {
			steps = append(steps, map[string]any{"op": "add", "path": prefix + "/" + entry.field, "value": map[string]any{}})
		}
		add(prefix+"/"+entry.field+"/", entry.escaped, value, append(path, entry.key)...)
	}
	add("/spec/", "taints", taintsOf(value), "spec", "taints")
	return json.Marshal(steps)
}

func applied(o *unstructured.Unstructured, value string) map[string]any {
	patch := changes(o, value, map[string]any{"name": o.GetName()})
	patch["apiVersion"], patch["kind"] = o.GetAPIVersion(), o.GetKind()
	return patch
}

// applyPatch fails if the object has another version.
func applyPatch(o *unstructured.Unstructured, value string) ([]byte, error) {
	return json.Marshal(applied(o, value))
}

func applyPatchCBOR(o *unstructured.Unstructured, value string) ([]byte, error) {
	return runtime.Encode(cbor.NewSerializer(nil, nil), &unstructured.Unstructured{Object: applied(o, value)})
}

// updated returns the whole object with its version.
func updated(o *unstructured.Unstructured, value string) (*unstructured.Unstructured, error) {
	next := o.DeepCopy()
	fields := []string{"metadata"}
	if o.GetKind() != "Node" {
		fields = []string{"spec", "metadata"}
	}
	for field, key := range map[string]string{"labels": label, "annotations": annotation} {
		if err := unstructured.SetNestedField(next.Object, value, append(slices.Clone(fields), field, key)...); err != nil {
			return nil, err
		}
	}
	return next, unstructured.SetNestedSlice(next.Object, taintsOf(value), "spec", "taints")
}

func updateJSON(o *unstructured.Unstructured, value string) ([]byte, error) {
	next, err := updated(o, value)
	if err != nil {
		return nil, err
	}
	return next.MarshalJSON()
}

func updateCBOR(o *unstructured.Unstructured, value string) ([]byte, error) {
	next, err := updated(o, value)
	if err != nil {
		return nil, err
	}
	return runtime.Encode(cbor.NewSerializer(nil, nil), next)
}

func updateProtobuf(o *unstructured.Unstructured, value string) ([]byte, error) {
	next, err := updated(o, value)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(next.Object, node); err != nil {
		return nil, fmt.Errorf("converting Node %s: %w", o.GetName(), err)
	}
	return runtime.Encode(protobuf.NewSerializer(nil, nil), node)
}
