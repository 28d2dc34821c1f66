package plan

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// preview is -f and the flags that belong to it.
type preview struct {
	files genericclioptions.FileNameFlags
}

func (p *preview) addFlags(command *cobra.Command) {
	var filenames []string
	var kustomize string
	var recursive bool
	p.files = genericclioptions.FileNameFlags{
		Usage:     "Files, directories or URLs with MachineSets or NodeGroups to plan as if they were applied; - is standard input.",
		Filenames: &filenames, Kustomize: &kustomize, Recursive: &recursive,
	}
	p.files.AddFlags(command.Flags())
}

func (p *preview) given() bool { return len(*p.files.Filenames) > 0 || *p.files.Kustomize != "" }

// planned is a kind of which files are planned.
type planned struct{ kind, version string }

var (
	machineSets = planned{"MachineSet", machinev1beta1.GroupVersion.String()}
	nodeGroups  = planned{"NodeGroup", v1alpha1.GroupVersion.String()}
)

// manifest is a MachineSet or NodeGroup as a file has it.
type manifest struct {
	source  string
	content *unstructured.Unstructured
}

// read returns the objects of the files; nil without files.
func (p *preview) read(o *cmdutil.Options) ([]*resource.Info, error) {
	if !p.given() {
		return nil, nil
	}
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

// isIn reports whether there is an object of the kind.
func (k planned) isIn(infos []*resource.Info) bool {
	return slices.ContainsFunc(infos, func(info *resource.Info) bool { return info.Object.GetObjectKind().GroupVersionKind().Kind == k.kind })
}

// manifests returns the objects of the kind. Others are skipped with a warning: a file often contains much more.
func (k planned) manifests(o *cmdutil.Options, infos []*resource.Info) ([]manifest, error) {
	var found []manifest
	sources := map[string]string{}
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok || object.GetKind() != k.kind {
			kind := info.Object.GetObjectKind().GroupVersionKind().Kind
			if err := o.Warn("%s: %s %q is not a %s; skipped", info.Source, kind, info.Name, k.kind); err != nil {
				return nil, err
			}
			continue
		}
		key := object.GetNamespace() + "/" + object.GetName()
		switch first, repeated := sources[key]; {
		case object.GetAPIVersion() != k.version:
			return nil, fmt.Errorf("%s: %s %q is of %s; Drover works with %s", info.Source, k.kind, object.GetName(), object.GetAPIVersion(), k.version)
		case object.GetName() == "":
			return nil, fmt.Errorf("%s: a %[2]s has no metadata.name; set it to the name of the %[2]s to plan", info.Source, k.kind)
		case repeated:
			return nil, fmt.Errorf("%s %q is in %s and again in %s; leave one out", k.kind, object.GetName(), first, info.Source)
		}
		sources[key] = info.Source
		found = append(found, manifest{info.Source, object})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading -f: there is no %s of %s in it", k.kind, k.version)
	}
	return found, nil
}

// convert converts the object to its type. Unknown fields are a warning.
func (m manifest) convert(into any) (warnings []string, err error) {
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m.content.Object, into, true)
	name := fmt.Sprintf("%s: %s %q", m.source, m.content.GetKind(), m.content.GetName())
	switch {
	case runtime.IsStrictDecodingError(err):
		return []string{fmt.Sprintf("%s: %v; the API server drops unknown fields", name, err)}, nil
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, typeError(m.content, into, err))
	}
	return nil, nil
}

// apply replaces the MachineSet of the cluster by what kubectl apply would make of it, or adds a new one.
func (m manifest) apply(objects *plan.Objects) (warnings []string, err error) {
	declared := &machinev1beta1.MachineSet{}
	if warnings, err = m.convert(declared); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(objects.Sets, func(set *machinev1beta1.MachineSet) bool {
		return set.Namespace == declared.Namespace && set.Name == declared.Name
	})
	if at < 0 {
		declared.Generation = 1
		objects.Sets = append(objects.Sets, declared)
		return warnings, nil
	}
	live := objects.Sets[at]
	next, more, err := merge(live, m)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(live.Spec, next.Spec) {
		next.Generation++
	}
	objects.Sets[at] = next
	return append(warnings, more...), nil
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

// merge merges the last applied configuration, the manifest and the live object as kubectl apply does: for a custom resource, with a JSON
// merge patch.
func merge[T any, P interface {
	*T
	metav1.Object
}](live P, m manifest) (result P, warnings []string, err error) {
	original := lastApplied(live)
	name := fmt.Sprintf("%s %q", m.content.GetKind(), m.content.GetName())
	if original == "" {
		warnings = append(warnings, name+" was not created by kubectl apply: fields that the manifest leaves out stay, as with kubectl apply")
	}
	merged, err := mergeJSON(live, m.content, original)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %s: %w", m.source, name, err)
	}
	result = new(T)
	if err := json.Unmarshal(merged, result); err != nil {
		return nil, nil, fmt.Errorf("%s: %s: reading the merged object: %w", m.source, name, err)
	}
	return result, warnings, nil
}

// lastApplied returns what kubectl apply has applied last; empty for an object that it has not applied.
func lastApplied(live metav1.Object) string {
	return live.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
}

func mergeJSON(live any, manifest *unstructured.Unstructured, original string) ([]byte, error) {
	current, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("rendering the object of the cluster: %w", err)
	}
	patch, err := applyPatch(live, manifest, original)
	if err != nil {
		return nil, err
	}
	merged, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	return merged, nil
}

// applyPatch returns the patch that kubectl apply sends for a live object.
func applyPatch(live any, manifest *unstructured.Unstructured, original string) ([]byte, error) {
	current, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("rendering the object of the cluster: %w", err)
	}
	modified, err := manifest.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("rendering the manifest: %w", err)
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch([]byte(original), modified, current)
	if err != nil {
		return nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	return patch, nil
}
