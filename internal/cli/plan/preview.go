package plan

import (
	"encoding/json"
	"fmt"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

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
		Usage:     "Files, directories or URLs with MachineSets to plan as if they were applied; - is standard input.",
		Filenames: &filenames, Kustomize: &kustomize, Recursive: &recursive,
	}
	p.files.AddFlags(command.Flags())
}

func (p *preview) given() bool { return len(*p.files.Filenames) > 0 || *p.files.Kustomize != "" }

// manifest is a MachineSet as a file has it.
type manifest struct {
	source  string
	content *unstructured.Unstructured
}

// read returns the MachineSets of the files. It skips other objects with a warning: a file often contains much more.
func (p *preview) read(o *cmdutil.Options) ([]manifest, error) {
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
	var found []manifest
	sources := map[string]string{}
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok || object.GetKind() != "MachineSet" {
			err := o.Warn("%s: %s %q is not a MachineSet; skipped", info.Source, info.Object.GetObjectKind().GroupVersionKind().Kind, info.Name)
			if err != nil {
				return nil, err
			}
			continue
		}
		key := object.GetNamespace() + "/" + object.GetName()
		switch first, repeated := sources[key]; {
		case object.GetAPIVersion() != machinev1beta1.GroupVersion.String():
			return nil, fmt.Errorf("%s: MachineSet %q is of %s; Drover works with %s",
				info.Source, object.GetName(), object.GetAPIVersion(), machinev1beta1.GroupVersion)
		case object.GetName() == "":
			return nil, fmt.Errorf("%s: a MachineSet has no metadata.name; set it to the name of the MachineSet to plan", info.Source)
		case repeated:
			return nil, fmt.Errorf("MachineSet %q is in %s and again in %s; leave one out", object.GetName(), first, info.Source)
		}
		sources[key] = info.Source
		found = append(found, manifest{info.Source, object})
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("reading -f: there is no MachineSet of %s in it", machinev1beta1.GroupVersion)
	}
	return found, nil
}

// apply replaces the MachineSet of the cluster by what kubectl apply would make of it, or adds a new one.
func (m manifest) apply(objects *plan.Objects) (warnings []string, err error) {
	declared := &machinev1beta1.MachineSet{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(m.content.Object, declared, true)
	switch {
	case runtime.IsStrictDecodingError(err):
		warnings = append(warnings, fmt.Sprintf("%s: MachineSet %q: %v; the API server drops unknown fields", m.source, declared.Name, err))
	case err != nil:
		return nil, fmt.Errorf("%s: MachineSet %q: %w", m.source, m.content.GetName(), typeError(m.content, err))
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
	if live.Annotations[corev1.LastAppliedConfigAnnotation] == "" {
		warnings = append(warnings, fmt.Sprintf(
			"MachineSet %q was not created by kubectl apply: fields that the manifest leaves out stay, as with kubectl apply", declared.Name))
	}
	objects.Sets[at], err = merge(live, m.content)
	if err != nil {
		return nil, fmt.Errorf("%s: MachineSet %q: %w", m.source, declared.Name, err)
	}
	return warnings, nil
}

// typeError names the field of a wrong type, which the error of the converter does not.
func typeError(content *unstructured.Unstructured, err error) error {
	text, failure := content.MarshalJSON()
	if failure == nil {
		failure = json.Unmarshal(text, &machinev1beta1.MachineSet{})
	}
	if failure != nil {
		return failure
	}
	return err
}

// merge merges the last applied configuration, the manifest and the live object as kubectl apply does: for a custom resource, with a JSON
// merge patch.
func merge(live *machinev1beta1.MachineSet, manifest *unstructured.Unstructured) (*machinev1beta1.MachineSet, error) {
	current, err := json.Marshal(live)
	if err != nil {
		return nil, fmt.Errorf("rendering the MachineSet of the cluster: %w", err)
	}
	modified, err := manifest.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("rendering the manifest: %w", err)
	}
	original := []byte(live.Annotations[corev1.LastAppliedConfigAnnotation])
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(original, modified, current)
	if err != nil {
		return nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	merged, err := jsonpatch.MergePatch(current, patch)
	if err != nil {
		return nil, fmt.Errorf("merging the manifest as kubectl apply does: %w", err)
	}
	result := &machinev1beta1.MachineSet{}
	if err := json.Unmarshal(merged, result); err != nil {
		return nil, fmt.Errorf("reading the merged MachineSet: %w", err)
	}
	if !equality.Semantic.DeepEqual(live.Spec, result.Spec) {
		result.Generation++
	}
	return result, nil
}
