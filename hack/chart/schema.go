package main

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/drover-io/drover/hack/settings"
)

//go:embed schema.json
var values []byte

// enums are the fields of the configuration that have a few words only. A test holds them to what the operator takes.
var enums = map[string][]any{
	"log.format": {"json", "text"}, "maintenance.outOfBandUncordon": {"Repair", "Report"},
	// YAML takes On and Off for true and false unless they are quoted.
	"maintenance.controlPlaneGuard": {"Auto", "Off", false}, "maintenance.force": {"On", "Off", true, false},
	"maintenance.outOfService":            {"On", "Off", true, false},
	"nodeGroups.rollout.noExecute.policy": {"Guard", "Refuse", "Allow"}, "nodeGroups.rollout.noExecute.onTimeout": {"Hold", "Proceed"},
	"upgrade.nodeVersion": {"Auto", "Label", "MachineConfig"}, "webhook.certificates": {"Managed", "Files"},
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
	"machines.remediation.templateKinds": `^[A-Z][A-Za-z0-9]*Template\.[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])$`,
	"webhook.bindAddress":                address, "metrics.bindAddress": address, "health.bindAddress": address,
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
	configuration, err := settings.Read("api/config/v1alpha1/types.go")
	if err != nil {
		return err
	}
	config, err := schemaOf(configuration)
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

// schemaOf describes a field as JSON Schema.
func schemaOf(f settings.Field) (map[string]any, error) {
	switch f.Type {
	case settings.Duration:
		return map[string]any{"type": "string", "pattern": `^-?([0-9]+([.][0-9]+)?(ns|us|µs|ms|s|m|h))+$|^0$`}, nil
	case settings.IntOrString:
		return map[string]any{"type": []string{"integer", "string"}, "minimum": 0, "pattern": "^[0-9]+%?$"}, nil
	}
	elements := func() (map[string]any, error) { return schemaOf(settings.Field{Path: f.Path, Type: f.Type.Elem()}) }
	switch f.Type.Kind() {
	case reflect.String:
		return stringSchema(f.Path), nil
	case reflect.Bool:
		return map[string]any{"type": "boolean"}, nil
	case reflect.Int, reflect.Int32:
		return map[string]any{"type": "integer"}, nil
	case reflect.Float64:
		return map[string]any{"type": "number"}, nil
	case reflect.Slice:
		items, err := elements()
		return map[string]any{"type": "array", "items": items}, err
	case reflect.Map:
		values, err := elements()
		return map[string]any{"type": "object", "additionalProperties": values}, err
	case reflect.Struct:
		return structSchema(f)
	default:
		return nil, fmt.Errorf("%s: a field of the unknown type %s", f.Path, f.Type)
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

func structSchema(f settings.Field) (map[string]any, error) {
	properties := map[string]any{}
	for _, field := range f.Fields {
		schema, err := schemaOf(field)
		if err != nil {
			return nil, err
		}
		if field.Comment != "" {
			schema["description"] = field.Comment
		}
		properties[field.Name] = schema
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}, nil
}
