package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// preview is -f and the flags that belong to it.
type preview struct {
	files genericclioptions.FileNameFlags
}

// AddFlags adds the flags to a command.
func (p *preview) AddFlags(command *cobra.Command) {
	p.files = genericclioptions.FileNameFlags{
		Usage:     "Files, directories or URLs with MachineSets or NodeGroups to plan as if they were applied; - is standard input.",
		Filenames: new([]string), Kustomize: new(string), Recursive: new(bool),
	}
	p.files.AddFlags(command.Flags())
}

// Validate accepts all flags.
func (*preview) Validate() error { return nil }

func (p *preview) given() bool { return len(*p.files.Filenames) > 0 || *p.files.Kustomize != "" }

// The kinds that a file may have.
const (
	machineSet = "MachineSet"
	nodeGroup  = "NodeGroup"
)

var versions = map[string]string{machineSet: machinev1beta1.GroupVersion.String(), nodeGroup: v1alpha1.GroupVersion.String()}

// manifest is a MachineSet or NodeGroup as a file has it.
type manifest struct {
	source  string
	content *unstructured.Unstructured
}

func (m *manifest) String() string {
	return fmt.Sprintf("%s: %s %q", m.source, m.content.GetKind(), m.content.GetName())
}

// manifests returns the MachineSets and NodeGroups of the files; nil without files. It skips other objects with a warning: a file often contains much
// more.
func (p *preview) manifests(o *cmdutil.Options) (found []manifest, err error) {
	if !p.given() {
		return nil, nil
	}
	infos, err := p.read(o)
	if err != nil {
		return nil, err
	}
	sources := map[string]string{}
	for _, info := range infos {
		kind := info.Object.GetObjectKind().GroupVersionKind().Kind
		object, ok := info.Object.(*unstructured.Unstructured)
		version, isPlanned := versions[kind]
		if !ok || !isPlanned {
			if err := o.Warn("%s: %s %q is not a MachineSet or a NodeGroup; skipped", info.Source, kind, info.Name); err != nil {
				return nil, err
			}
			continue
		}
		key := kind + "/" + object.GetNamespace() + "/" + object.GetName()
		switch first, repeated := sources[key]; {
		case object.GetAPIVersion() != version:
			return nil, fmt.Errorf("%s: %s %q is of %s; Drover works with %s", info.Source, kind, object.GetName(), object.GetAPIVersion(), version)
		case object.GetName() == "":
			return nil, fmt.Errorf("%s: a %[2]s has no metadata.name; set it to the name of the %[2]s to plan", info.Source, kind)
		case repeated:
			return nil, fmt.Errorf("%s %q is in %s and again in %s; leave one out", kind, object.GetName(), first, info.Source)
		}
		sources[key] = info.Source
		found = append(found, manifest{info.Source, object})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading -f: there is no MachineSet of %s in it, and there is no NodeGroup of %s", versions[machineSet], versions[nodeGroup])
	}
	return found, useNamespaceOf(o, found)
}

func (p *preview) read(o *cmdutil.Options) ([]*resource.Info, error) {
	files := p.files.ToOptions()
	builder := resource.NewBuilder(o.Config).Local().Unstructured()
	if at := slices.Index(files.Filenames, "-"); at >= 0 {
		files.Filenames = slices.Delete(slices.Clone(files.Filenames), at, at+1)
		builder = builder.Stream(o.In, "standard input")
	}
	infos, err := builder.FilenameParam(false, &files).Flatten().Do().Infos()
	if err != nil {
		return nil, fmt.Errorf("reading -f: %w", err)
	}
	return infos, nil
}

// useNamespaceOf uses the namespace of the MachineSets if no namespace was given.
func useNamespaceOf(o *cmdutil.Options, manifests []manifest) error {
	used := o.GivenNamespace() != ""
	for _, m := range manifests {
		own := m.content.GetNamespace()
		switch {
		case m.content.GetKind() != machineSet:
			m.content.SetNamespace("")
			continue
		case own == "" && o.AllNamespaces:
			m.content.SetNamespace(cmdutil.DefaultNamespace)
		case own == "":
			m.content.SetNamespace(o.Namespace())
		case o.AllNamespaces || own == o.Namespace():
		case used:
			return fmt.Errorf("%s is in namespace %q, not %q; use -n %[2]s, or --all-namespaces for files of several namespaces", &m, own, o.Namespace())
		default:
			o.Config.Namespace = &own
		}
		used = true
	}
	return nil
}

// namesOf returns the names of the MachineSets and NodeGroups of files.
func namesOf(manifests []manifest) (sets, groups []string) {
	for _, m := range manifests {
		if m.content.GetKind() == machineSet {
			sets = append(sets, m.content.GetName())
		} else {
			groups = append(groups, m.content.GetName())
		}
	}
	return sets, groups
}

// selectedNamespaces returns the namespaces whose MachineSets NodeGroups in files select.
func selectedNamespaces(manifests []manifest) (namespaces []string) {
	for _, m := range manifests {
		if namespace, found, err := unstructured.NestedString(m.content.Object, "spec", "nodes", "machineSets", "namespace"); found && err == nil {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// apply changes the snapshot as applying a manifest would, and has the API server validate the manifest.
func (o *options) apply(ctx context.Context, c client.Client, s *cmdutil.Snapshot, m manifest) (err error) {
	if err := o.check(ctx, c, m); err != nil {
		return err
	}
	var warnings []string
	if m.content.GetKind() == machineSet {
		s.Sets, warnings, err = applied(s.Sets, m, o.Now())
	} else {
		s.Groups, warnings, err = applied(s.Groups, m, o.Now())
	}
	for _, warning := range warnings {
		if err := o.Warn("%s", warning); err != nil {
			return err
		}
	}
	return err
}

// object is a pointer to a MachineSet or a NodeGroup.
type object[T any] interface {
	*T
	client.Object
}

// applied returns the objects with what kubectl apply would make of a manifest. A new object is the youngest.
func applied[T any, P object[T]](all []P, m manifest, now time.Time) ([]P, []string, error) {
	declared := P(new(T))
	warnings, err := m.convert(declared)
	if err != nil {
		return nil, nil, err
	}
	at := slices.IndexFunc(all, func(known P) bool { return client.ObjectKeyFromObject(known) == client.ObjectKeyFromObject(declared) })
	if at < 0 {
		field(declared, "Status").SetZero()
		declared.SetGeneration(1)
		declared.SetUID(types.UID("planned " + declared.GetName()))
		declared.SetCreationTimestamp(metav1.NewTime(now))
		return append(slices.Clone(all), declared), warnings, nil
	}
	live, next := all[at], P(new(T))
	if lastApplied(live) == "" {
		warnings = append(warnings, fmt.Sprintf(
			"%s %q was not created by kubectl apply: fields that the manifest leaves out stay, as with kubectl apply", m.content.GetKind(), live.GetName()))
	}
	merged, err := m.merge(live)
	if err == nil {
		err = json.Unmarshal(merged, next)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", &m, err)
	}
	// The API server ignores what a file says of these.
	next.SetUID(live.GetUID())
	next.SetCreationTimestamp(live.GetCreationTimestamp())
	next.SetGeneration(live.GetGeneration())
	field(next, "Status").Set(field(live, "Status"))
	if !equality.Semantic.DeepEqual(field(live, "Spec").Interface(), field(next, "Spec").Interface()) {
		next.SetGeneration(live.GetGeneration() + 1)
	}
	all = slices.Clone(all)
	all[at] = next
	return all, warnings, nil
}

// field returns a field of an object.
func field(object any, name string) reflect.Value {
	return reflect.ValueOf(object).Elem().FieldByName(name)
}

// convert converts the object to its type. Unknown fields are a warning.
func (m manifest) convert(into any) (warnings []string, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m.content.Object, into, true)
	switch {
	case runtime.IsStrictDecodingError(err):
		return []string{fmt.Sprintf("%s: %v; the API server drops unknown fields", &m, err)}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", &m, typeError(m.content, into, err))
	}
	return nil, nil
}

// typeError names the field of a wrong type, which the error of the converter does not.
func typeError(content *unstructured.Unstructured, into any, err error) error {
	text, failure := content.MarshalJSON()
	if failure == nil {
		failure = json.Unmarshal(text, into)
	}
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(failure, &wrong) {
		return fmt.Errorf("%s: a value of the type %s is not allowed", wrong.Field, wrong.Value)
	}
	return cmp.Or(failure, err)
}

// lastApplied returns what kubectl apply has applied last; empty for an object that it has not applied.
func lastApplied(live metav1.Object) string {
	return live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
}

// merge merges the last applied configuration, the manifest and the live object as kubectl apply does: a custom resource with a JSON merge patch.
func (m manifest) merge(live metav1.Object) ([]byte, error) {
	patch, current, err := m.patch(live)
	if err != nil {
		return nil, err
	}
	merged, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	return merged, nil
}

// patch returns the patch that kubectl apply sends for a live object, and the text of that object.
func (m manifest) patch(live metav1.Object) (patch, current []byte, err error) {
	if current, err = json.Marshal(live); err != nil {
		return nil, nil, fmt.Errorf("rendering the object of the cluster: %w", err)
	}
	modified, err := m.content.MarshalJSON()
	if err != nil {
		return nil, nil, fmt.Errorf("rendering the manifest: %w", err)
	}
	if patch, err = jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(lastApplied(live)), modified, current); err != nil {
		return nil, nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	return patch, current, nil
}
