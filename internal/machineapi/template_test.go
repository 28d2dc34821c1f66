package machineapi

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

// newTemplate returns the template of a MachineSet with a providerSpec; an empty one is none.
func newTemplate(providerSpec string, options ...func(*machinev1beta1.MachineSet)) *Template {
	set := &machinev1beta1.MachineSet{}
	set.Spec.Template.Spec.ProviderSpec.Value = rawOf(providerSpec)
	for _, option := range options {
		option(set)
	}
	return TemplateOf(set)
}

func rawOf(text string) *runtime.RawExtension {
	if text == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: []byte(text)}
}

func restartedAt(time string) func(*machinev1beta1.MachineSet) {
	return func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Annotations = map[string]string{RestartedAtAnnotation: time}
	}
}

func TestTemplate_Hash(t *testing.T) {
	base := newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["x","y"]}`).Hash()
	if !strings.HasPrefix(base, "v1:") || len(base) != len("v1:")+32 {
		t.Errorf("the hash is %q", base)
	}
	for name, c := range map[string]struct {
		other *Template
		same  bool
	}{
		"fields in another order, and spaces": {newTemplate(`{ "tags":["x","y"], "disk":{"kind":"ssd","size":10}, "image":"a"}`), true},
		"a field that is null":                {newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd","key":null},"tags":["x","y"],"zone":null}`), true},
		"labels, annotations, taints, hooks and providerID": {
			newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["x","y"]}`, func(set *machinev1beta1.MachineSet) {
				template := &set.Spec.Template
				template.Labels, template.Annotations = map[string]string{"a": "b"}, map[string]string{"a": "b"}
				template.Spec.Labels = map[string]string{"a": "b"}
				template.Spec.ProviderID = new("kwok://a")
				template.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "a", Owner: "b"}}
			}), true,
		},
		"another value":      {newTemplate(`{"image":"b","disk":{"size":10,"kind":"ssd"},"tags":["x","y"]}`), false},
		"another number":     {newTemplate(`{"image":"a","disk":{"size":11,"kind":"ssd"},"tags":["x","y"]}`), false},
		"a field more":       {newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["x","y"],"zone":""}`), false},
		"a list in disorder": {newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["y","x"]}`), false},
		"none":               {newTemplate(""), false},
		"restarted":          {newTemplate(`{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["x","y"]}`, restartedAt("2026-11-23T12:00:00Z")), false},
	} {
		if got := c.other.Hash(); (got == base) != c.same {
			t.Errorf("%s: the hashes are %s and %s", name, got, base)
		}
	}
	if newTemplate(`{"n":9007199254740993}`).Hash() == newTemplate(`{"n":9007199254740992}`).Hash() {
		t.Error("large numbers are rounded")
	}
}

func TestTemplate_Outdates(t *testing.T) {
	const spec = `{"image":"a","disk":{"size":10},"tags":["x"]}`
	template := newTemplate(spec)
	for name, c := range map[string]struct {
		template            *Template
		hash, restart, spec string
		want                bool
	}{
		"its own hash":                        {template, template.Hash(), "", `{"image":"changed by hand"}`, false},
		"another hash":                        {template, newTemplate("{}").Hash(), "", spec, true},
		"a hash of another version":           {template, "v2:00", "", spec, false},
		"no hash, the same":                   {template, "", "", spec, false},
		"no hash, defaults were added":        {template, "", "", `{"image":"a","disk":{"size":10,"kind":"ssd"},"tags":["x"],"zone":"b"}`, false},
		"no hash, another value":              {template, "", "", `{"image":"b","disk":{"size":10},"tags":["x"]}`, true},
		"no hash, a field is missing":         {template, "", "", `{"image":"a","tags":["x"]}`, true},
		"no hash, a longer list":              {template, "", "", `{"image":"a","disk":{"size":10},"tags":["x","y"]}`, true},
		"no hash, no providerSpec":            {template, "", "", "", true},
		"no hash, no template":                {newTemplate(""), "", "", spec, false},
		"no hash, not an object":              {template, "", "", `"a"`, true},
		"no hash, restarted before":           {newTemplate(spec, restartedAt("2")), "", "1", spec, true},
		"no hash, never restarted":            {newTemplate(spec, restartedAt("2")), "", "", spec, true},
		"no hash, created after the restart":  {newTemplate(spec, restartedAt("2")), "", "2", spec, false},
		"its own hash, which has the restart": {newTemplate(spec, restartedAt("2")), newTemplate(spec, restartedAt("2")).Hash(), "", spec, false},
	} {
		machine := &machinev1beta1.Machine{}
		machine.Spec.ProviderSpec.Value = rawOf(c.spec)
		machine.Annotations = map[string]string{}
		if c.hash != "" {
			machine.Annotations[TemplateHashAnnotation] = c.hash
		}
		if c.restart != "" {
			machine.Annotations[RestartedAtAnnotation] = c.restart
		}
		for range 2 { // the second answer is remembered
			if got := c.template.Outdates(machine); got != c.want {
				t.Errorf("%s: outdated is %t", name, got)
			}
		}
	}
}
