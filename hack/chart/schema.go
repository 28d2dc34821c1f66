package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// types is where the configuration file's format is written down.
const types = "api/config/v1alpha1/types.go"

//go:embed schema.json
var values []byte

// enums are the fields of the configuration that have a few words only. A test holds them to what the operator takes.
var enums = map[string][]any{
	"log.format": {"json", "text"}, "maintenance.outOfBandUncordon": {"Repair", "Report"},
	// YAML takes On and Off for true and false unless they are quoted.
	"maintenance.controlPlaneGuard": {"Auto", "Off", false}, "maintenance.force": {"On", "Off", true, false},
	"maintenance.outOfService": {"On", "Off", true, false},
	"upgrade.nodeVersion":      {"Auto", "Label", "MachineConfig"}, "webhook.certificates": {"Managed", "Files"},
}

// Names of objects, and addresses. The templates put them into objects of their own, where Helm says what is wrong before the API server does.
const (
	label     = `[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?`
	subdomain = `[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?`
	address   = `^(0|[A-Za-z0-9.:%[\]-]*:[0-9]{1,5})$`
)

// patterns are the fields of the configuration that are more than any text.
var patterns = map[string]string{
	"namespace": "^(" + label + ")?$", "leaderElection.name": "^" + subdomain + "$", "leaderElection.namespace": "^" + label + "$",
	"webhook.serviceName": "^" + label + "$", "webhook.secretName": "^" + subdomain + "$", "webhook.validatingConfigurationName": "^" + subdomain + "$",
	"webhook.bindAddress": address, "metrics.bindAddress": address, "health.bindAddress": address,
}

// addSchema writes the schema of the values, whose part about the configuration follows from the operator's own types.
func addSchema(files map[string][]byte) error {
	schema := map[string]any{}
	if err := json.Unmarshal(values, &schema); err != nil {
		return fmt.Errorf("hack/chart/schema.json: %w", err)
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return errors.New("hack/chart/schema.json: it has no properties")
	}
	text, err := os.ReadFile(types)
	if err != nil {
		return err
	}
	comments, err := commentsOf(text)
	if err != nil {
		return err
	}
	config, err := schemaOf(reflect.TypeFor[v1alpha1.DroverConfiguration](), "", comments)
	if err != nil {
		return err
	}
	config["description"] = "The configuration file, DroverConfiguration of config.drover.dev/v1alpha1, without apiVersion and kind."
	properties["config"] = config
	written, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return err
	}
	files["values.schema.json"] = append(written, '\n')
	return nil
}

// schemaOf describes a type as JSON Schema.
func schemaOf(t reflect.Type, path string, comments map[string]string) (map[string]any, error) {
	if t == reflect.TypeFor[metav1.Duration]() {
		return map[string]any{"type": "string", "pattern": `^-?([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`}, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return schemaOf(t.Elem(), path, comments)
	case reflect.String:
		return stringSchema(path), nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Int:
		return map[string]any{"type": "integer"}, nil
	case reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Slice:
		items, err := schemaOf(t.Elem(), path, comments)
		return map[string]any{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := schemaOf(t.Elem(), path, comments)
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return structSchema(t, path, comments)
	default:
		return nil, fmt.Errorf("%s: a field of type %s is not known here", path, t)
	}
}

func stringSchema(path string) map[string]any {
	if enum, ok := enums[path]; ok {
		return map[string]any{"enum": enum}
	}
	schema := map[string]any{"type": "string"}
	if pattern, ok := patterns[path]; ok {
		schema["pattern"] = pattern
	}
	return schema
}

func structSchema(t reflect.Type, path string, comments map[string]string) (map[string]any, error) {
	properties := map[string]any{}
	for i := range t.NumField() {
		field := t.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			continue // apiVersion and kind are the chart's
		}
		below := strings.TrimPrefix(path+"."+name, ".")
		schema, err := schemaOf(field.Type, below, comments)
		if err != nil {
			return nil, err
		}
		if comment := comments[t.Name()+"."+field.Name]; comment != "" {
			schema["description"] = comment
		}
		properties[name] = schema
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}, nil
}

// commentsOf reads the comments of fields, by "Type.Field".
func commentsOf(source []byte) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), types, source, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	comments := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if structure, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					comments[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(field.Doc.Text()), " ")
				}
			}
		}
		return true
	})
	return comments, nil
}
