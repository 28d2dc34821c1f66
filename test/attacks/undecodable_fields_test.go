package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/eventually"
	"github.com/drover-io/drover/test/openshift"
)

// watchedCRDs are the custom resources that Drover watches, with what an object needs.
var watchedCRDs = map[string]string{
	"machinesets.machine.openshift.io":            `{"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}}}}}`,
	"machines.machine.openshift.io":               `{"spec":{}}`,
	"machinehealthchecks.machine.openshift.io":    `{"spec":{"selector":{"matchLabels":{"a":"b"}}}}`,
	"machineautoscalers.autoscaling.openshift.io": `{"spec":{"minReplicas":1,"maxReplicas":2,"scaleTargetRef":{"name":"none"}}}`,
	"nodegroups.drover.dev":                       `{"spec":{"nodes":{"selector":{"matchLabels":{"attacks/none":""}}}}}`,

	"nodemaintenances.nodemaintenance.medik8s.io":  `{"spec":{"nodeName":"none"}}`,
	"nodemaintenances.nodemaintenance.kubevirt.io": `{"spec":{"nodeName":"none"}}`,

	"mutexrules.openshift-optional.skrzypek.io":      `{"spec":{"jobNamespace":"default","jobSpec":{}}}`,
	"mutextargets.openshift-optional.skrzypek.io":    `{"spec":{"machineConfigPools":["none"]}}`,
	"mutexrunconfigs.openshift-optional.skrzypek.io": `{"spec":{"canary":{"name":"none"},"mutexRules":[{"name":"a"}],"mutexTargets":[{"name":"b"}]}}`,

	"machineconfigpools.machineconfiguration.openshift.io": `{"spec":{}}`,
	"clusterversions.config.openshift.io":                  `{"spec":{"clusterID":"a"}}`,
}

// definition is a CRD, as far as it is read here.
type definition struct {
	resource schema.GroupVersionResource
	kind     string
	// namespaced reports whether its objects have namespaces.
	namespaced bool
	fields     map[string]any
}

// TestEveryField_OfEveryWatchedKind: whatever the schemas let into a field, the caches are filled with all objects, and go on. It is generated
// from the CRDs as the API server has them, without policies.
func TestEveryField_OfEveryWatchedKind(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, folder := range []string{"autoscaling", "mutex", "nodegroup", "nodemaintenance"} {
		if _, err := cluster.InstallCRDs(t.Context(), c.Admin(), crd.Files, folder); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cluster.InstallCRDs(t.Context(), c.Admin(), openshift.CRDs, "crds"); err != nil {
		t.Fatal(err)
	}
	all, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	settings := config.Default()
	settings.Metrics.BindAddress, settings.LeaderElection.Enabled = new("0"), new(false)
	mgr, err := operator.NewManager(c.Admin(), settings)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = mgr.GetCache().Start(t.Context()) }()
	total := 0
	for _, name := range slices.Sorted(maps.Keys(watchedCRDs)) {
		d := readDefinition(t, all, name)
		stored := d.store(t, all, watchedCRDs[name])
		scheme := mgr.GetScheme()
		object, err := scheme.New(schema.GroupVersionKind{Group: d.resource.Group, Version: d.resource.Version, Kind: d.kind})
		if err != nil {
			t.Fatal(err)
		}
		kind, ok := object.(client.Object)
		if !ok {
			t.Fatalf("%T is no object", object)
		}
		// It returns when the cache has all objects.
		informer, err := mgr.GetCache().GetInformer(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		store := informer.(toolscache.SharedIndexInformer).GetStore() //nolint:errcheck // every informer of this cache is one
		bad := 0
		for _, item := range store.List() {
			if object, ok := item.(client.Object); ok && undecodable.ProblemOf(object) != "" {
				bad++
				t.Logf("%s: %s", d.kind, undecodable.ProblemOf(object))
			}
		}
		if len(store.List()) != len(stored) {
			t.Errorf("%s: the cache has %d of %d objects", name, len(store.List()), len(stored))
		}
		t.Logf("%s: %d objects with an extreme value, %d cannot be decoded", name, len(stored), bad)
		total += bad
		// The watch outlasts them, too.
		d.touch(t, all, stored, store)
	}
	if total < 20 {
		t.Errorf("%d objects cannot be decoded: this shows little", total)
	}
}

// touch changes every object, and waits until the cache shows it.
func (d *definition) touch(t *testing.T, all dynamic.Interface, stored []*unstructured.Unstructured, store toolscache.Store) {
	t.Helper()
	versions := map[string]string{}
	for _, object := range stored {
		patched, err := d.client(all).Patch(t.Context(), object.GetName(), "application/merge-patch+json",
			[]byte(`{"metadata":{"annotations":{"again":"1"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		versions[object.GetName()] = patched.GetResourceVersion()
	}
	err := eventually.Until(t.Context(), time.Minute, 50*time.Millisecond, func() error {
		for _, item := range store.List() {
			if object, ok := item.(client.Object); ok && object.GetResourceVersion() != versions[object.GetName()] {
				return fmt.Errorf("%s %s is an old one", d.kind, object.GetName())
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func (d *definition) client(all dynamic.Interface) dynamic.ResourceInterface {
	if d.namespaced {
		return all.Resource(d.resource).Namespace(cluster.MachineNamespace)
	}
	return all.Resource(d.resource)
}

func readDefinition(t *testing.T, all dynamic.Interface, name string) *definition {
	t.Helper()
	found, err := all.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).
		Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(found.Object["spec"])
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Group, Scope string
		Names        struct{ Kind, Plural string }
		Versions     []struct {
			Name    string
			Storage bool
			Schema  struct {
				OpenAPIV3Schema struct{ Properties map[string]any }
			}
		}
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		t.Fatal(err)
	}
	for _, version := range spec.Versions {
		if version.Storage {
			return &definition{
				resource: schema.GroupVersionResource{Group: spec.Group, Version: version.Name, Resource: spec.Names.Plural}, kind: spec.Names.Kind,
				namespaced: spec.Scope == "Namespaced", fields: version.Schema.OpenAPIV3Schema.Properties,
			}
		}
	}
	t.Fatalf("%s has no version that is stored", name)
	return nil
}

// store makes an object for each extreme value of each field of spec and status that the API server takes, and returns them.
func (d *definition) store(t *testing.T, all dynamic.Interface, base string) (stored []*unstructured.Unstructured) {
	t.Helper()
	refused := 0
	for _, part := range []string{"spec", "status"} {
		fields, ok := d.fields[part].(map[string]any)
		if !ok {
			continue
		}
		for i, value := range extremes(fields, part) {
			object := &unstructured.Unstructured{}
			if err := json.Unmarshal([]byte(base), &object.Object); err != nil {
				t.Fatal(err)
			}
			object.SetAPIVersion(d.resource.GroupVersion().String())
			object.SetKind(d.kind)
			object.SetName(fmt.Sprintf("%s-%d", part, i))
			if part == "spec" {
				merge(object.Object["spec"].(map[string]any), value.value.(map[string]any)) //nolint:errcheck // both are objects
			}
			made, err := d.client(all).Create(t.Context(), object, metav1.CreateOptions{})
			if err == nil && part == "status" {
				made.Object["status"] = value.value
				if _, err = d.client(all).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
					if err := d.client(all).Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			}
			switch {
			case err == nil:
				stored = append(stored, made)
			case apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err):
				refused++
			default:
				t.Fatalf("%s: %v", value.path, err)
			}
		}
	}
	if len(stored) == 0 && !testing.Short() {
		t.Errorf("%s: all of %d values are refused", d.kind, refused)
	}
	return stored
}

// merge sets members of an object. It merges nested objects member by member.
func merge(into, from map[string]any) {
	for name, value := range from {
		below, isObject := value.(map[string]any)
		there, wasObject := into[name].(map[string]any)
		if isObject && wasObject {
			merge(there, below)
			continue
		}
		into[name] = value
	}
}

// extreme is a value of a schema with one field at the edge of what the schema allows.
type extreme struct {
	path  string
	value any
}

// ofStrings are values of fields that are strings, by their format.
var ofStrings = map[string][]any{
	"date-time": {"2020-01-01t00:00:00z", "2020-01-01T00:00:00+99:99", "2020-01-01T00:00:00.000000000000001Z", "0000-01-01T00:00:00Z",
		"2016-12-31T23:59:60Z"},
	"duration": {"1 week", "3d", "-1h", "106752d"},
	"":         {"0foo", "1e99999"},
}

// extremes returns the values of a schema. Without make test-all it leaves out what Go has always decoded: texts, and values that an enumeration
// names.
func extremes(of map[string]any, path string) (all []extreme) {
	if of["x-kubernetes-int-or-string"] == true {
		return leaves(path, 3000000000, -3000000000, int64(1)<<62, "x", "1e99999", "300000000000%")
	}
	switch of["type"] {
	case "object":
		return extremesOfObject(of, path)
	case "array":
		items, _ := of["items"].(map[string]any)
		for _, item := range extremes(items, path+"[]") {
			all = append(all, extreme{item.path, []any{item.value}})
		}
		return all
	case "string":
		format, _ := of["format"].(string)
		if testing.Short() && (format == "" && !suspect(path) || of["enum"] != nil) {
			return nil
		}
		if enum, _ := of["enum"].([]any); len(enum) > 0 {
			return leaves(path, enum...)
		}
		return leaves(path, ofStrings[format]...)
	case "integer":
		return leaves(path, 3000000000, -3000000000, int64(1)<<62)
	case "number":
		return leaves(path, 1e300, -1e300)
	case "boolean":
		return leaves(path, true)
	}
	return nil
}

// suspect reports whether the name of a text says that it is a duration, a quantity or a number.
func suspect(path string) bool {
	name := strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
	parts := []string{"timeout", "duration", "interval", "deadline", "delay", "period", "after", "max", "min", "for"}
	return slices.ContainsFunc(parts, func(part string) bool {
		return strings.Contains(name, part)
	})
}

func extremesOfObject(of map[string]any, path string) (all []extreme) {
	least, _ := minimal(of).(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, _ := properties[name].(map[string]any)
		for _, value := range extremes(property, path+"."+name) {
			object := maps.Clone(least)
			object[name] = value.value
			all = append(all, extreme{value.path, object})
		}
	}
	if values, ok := of["additionalProperties"].(map[string]any); ok {
		for _, value := range extremes(values, path+".*") {
			all = append(all, extreme{value.path, map[string]any{"a": value.value}})
		}
	}
	return all
}

func leaves(path string, values ...any) (all []extreme) {
	for _, value := range values {
		all = append(all, extreme{fmt.Sprintf("%s=%v", path, value), value})
	}
	return all
}

// minimal returns a value of a schema that has what it requires.
func minimal(of map[string]any) any {
	if value, has := of["default"]; has {
		return value
	}
	if enum, _ := of["enum"].([]any); len(enum) > 0 {
		return enum[0]
	}
	switch of["type"] {
	case "object":
		object := map[string]any{}
		required, _ := of["required"].([]any)
		properties, _ := of["properties"].(map[string]any)
		for _, name := range required {
			property, _ := properties[name.(string)].(map[string]any)
			object[name.(string)] = minimal(property) //nolint:errcheck // a name
		}
		return object
	case "array":
		return []any{}
	case "integer", "number":
		return 1
	case "boolean":
		return false
	case "string":
		if of["format"] == "date-time" {
			return "2020-01-01T00:00:00Z"
		}
	}
	if of["x-kubernetes-int-or-string"] == true {
		return 1
	}
	return "a"
}
