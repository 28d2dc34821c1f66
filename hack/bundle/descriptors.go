package main

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// titles are how the console names the kinds.
var titles = map[string]string{
	"nodegroups.drover.dev":                          "Node group",
	"nodemaintenances.nodemaintenance.medik8s.io":    "Node Maintenance",
	"nodemaintenances.nodemaintenance.kubevirt.io":   "Node Maintenance (older group)",
	"mutexrules.openshift-optional.skrzypek.io":      "Mutex Rule",
	"mutextargets.openshift-optional.skrzypek.io":    "Mutex Target",
	"mutexrunconfigs.openshift-optional.skrzypek.io": "Mutex Run",
}

// describe is what a ClusterServiceVersion says of a CRD, from its own schema.
func describe(crd *unstructured.Unstructured) (object, error) {
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if len(versions) != 1 || titles[crd.GetName()] == "" {
		return nil, errors.New("it has not one version, or no title here")
	}
	version, ok := versions[0].(object)
	if !ok {
		return nil, errors.New("its version is no object")
	}
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	text, _ := schema["description"].(string)
	return object{
		"name": crd.GetName(), "kind": kind, "version": version["name"], "displayName": titles[crd.GetName()], "description": inOneLine(text),
		"specDescriptors": descriptors(schema, "spec"), "statusDescriptors": descriptors(schema, "status"),
	}, nil
}

// descriptors are the fields of the spec or the status.
func descriptors(schema object, part string) []any {
	properties, _, _ := unstructured.NestedMap(schema, "properties", part, "properties")
	all := make([]any, 0, len(properties))
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		field, ok := properties[name].(object)
		if !ok {
			continue
		}
		text, _ := field["description"].(string)
		descriptor := object{"path": name, "displayName": inWords(name), "description": inOneLine(text)}
		control := specControls[field["type"]]
		if part == "status" {
			control = statusControls[name]
		}
		if control != "" {
			descriptor["x-descriptors"] = []any{"urn:alm:descriptor:" + control}
		}
		all = append(all, descriptor)
	}
	return all
}

// The controls of the console by the name of a field of the status, and by the type of a field of the spec.
var (
	statusControls = map[string]string{"conditions": "io.kubernetes.conditions", "phase": "io.kubernetes.phase"}
	specControls   = map[any]string{"boolean": "com.tectonic.ui:booleanSwitch", "integer": "com.tectonic.ui:number", "string": "com.tectonic.ui:text"}
)

func inOneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// inWords makes "Node name" of nodeName.
func inWords(name string) string {
	var words strings.Builder
	for i, r := range name {
		switch {
		case i == 0:
			words.WriteRune(unicode.ToUpper(r))
		case unicode.IsUpper(r):
			words.WriteString(" " + string(unicode.ToLower(r)))
		default:
			words.WriteRune(r)
		}
	}
	return words.String()
}
