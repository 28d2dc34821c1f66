package machineapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Annotations for finding outdated Machines.
const (
	// TemplateHashAnnotation identifies the template that Drover has created a Machine from.
	TemplateHashAnnotation = "drover.dev/template-hash"
	// RestartedAtAnnotation is set by users on the template of a MachineSet: another value makes all of its Machines outdated.
	RestartedAtAnnotation = "drover.dev/restartedAt"
)

// hashVersion says how a hash was computed. Hashes of other versions are not compared.
const hashVersion = "v1:"

// Template is what the Machines of a MachineSet have to match: the providerSpec, which providers read when they create an instance, and the time of
// the last restart. Drover applies labels, annotations and taints to Machines that exist. It is not safe for concurrent use.
type Template struct {
	fields      any
	restartedAt string
	hash        string
	// matching has the providerSpecs that were compared already: thousands of Machines have the same.
	matching map[string]bool
}

// TemplateOf returns the template of a MachineSet.
func TemplateOf(set *machinev1beta1.MachineSet) *Template {
	from := &set.Spec.Template
	t := &Template{
		fields: fieldsOf(from.Spec.ProviderSpec.Value), restartedAt: from.Annotations[RestartedAtAnnotation], matching: map[string]bool{},
	}
	t.hash = hashOf(t.fields, t.restartedAt)
	return t
}

// Hash returns the value of TemplateHashAnnotation for Machines that are created from the template.
func (t *Template) Hash() string { return t.hash }

// Outdates reports whether a Machine was created from another template. A Machine without a hash, which Drover did not create, is outdated if the
// template has a field that the Machine lacks or has with another value: a webhook may have added defaults to it.
func (t *Template) Outdates(machine *machinev1beta1.Machine) bool {
	if hash := machine.Annotations[TemplateHashAnnotation]; strings.HasPrefix(hash, hashVersion) {
		return hash != t.hash
	}
	if t.restartedAt != "" && machine.Annotations[RestartedAtAnnotation] != t.restartedAt {
		return true
	}
	var text string
	if value := machine.Spec.ProviderSpec.Value; value != nil {
		text = string(value.Raw)
	}
	matches, known := t.matching[text]
	if !known {
		matches = contains(fieldsOf(machine.Spec.ProviderSpec.Value), t.fields)
		t.matching[text] = matches
	}
	return !matches
}

// hashOf returns the hash of what a Template compares. The order of fields does not matter for its encoding.
func hashOf(fields any, restartedAt string) string {
	text, err := json.Marshal([]any{fields, restartedAt})
	if err != nil {
		// It has been decoded from JSON.
		return ""
	}
	sum := sha256.Sum256(text)
	return hashVersion + hex.EncodeToString(sum[:16])
}

// fieldsOf decodes a providerSpec, without fields that are null.
func fieldsOf(value *runtime.RawExtension) any {
	if value == nil || len(value.Raw) == 0 {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(value.Raw))
	decoder.UseNumber()
	var fields any
	if err := decoder.Decode(&fields); err != nil {
		// The API server stores JSON only.
		return string(value.Raw)
	}
	return withoutNulls(fields)
}

func withoutNulls(value any) any {
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			if field == nil {
				delete(value, key)
				continue
			}
			value[key] = withoutNulls(field)
		}
	case []any:
		for i := range value {
			value[i] = withoutNulls(value[i])
		}
	}
	return value
}

// contains reports whether a value has every field of another one, with the same value. Lists have to be equally long.
func contains(value, fields any) bool {
	switch fields := fields.(type) {
	case nil:
		return true
	case map[string]any:
		has, ok := value.(map[string]any)
		if !ok {
			return false
		}
		for key, field := range fields {
			if found, ok := has[key]; !ok || !contains(found, field) {
				return false
			}
		}
		return true
	case []any:
		has, ok := value.([]any)
		return ok && slices.EqualFunc(has, fields, contains)
	}
	return value == fields
}
