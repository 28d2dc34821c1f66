package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/hack/settings"
	"github.com/drover-io/drover/internal/config"
)

const configurationIntro = `
Look up the fields of the file that ` + "`--config`" + ` names here. [install.md](../install.md#configure) says where that file is.
Every field is optional. Drover does not start with an unknown field or an invalid value, and names the field. A flag overrides its field.

    apiVersion: ` + v1alpha1.APIVersion + `
    kind: ` + v1alpha1.Kind + `
`

// configurationPage describes the configuration file from its types, their comments and the defaults that the operator fills in.
func configurationPage(source string) (string, error) {
	configuration, err := settings.Read(source)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(config.Default())
	if err != nil {
		return "", err
	}
	var defaults map[string]any
	if err := json.Unmarshal(text, &defaults); err != nil {
		return "", err
	}
	p := newPage("Configuration file", configurationIntro)
	p.text.WriteString("\n")
	p.settings(configuration, defaults)
	return p.text.String(), nil
}

// settings writes the fields of a structure, then the fields of its nested structures.
func (p *page) settings(f settings.Field, defaults map[string]any) {
	var rows [][]string
	for _, field := range f.Fields {
		if field.Fields == nil {
			rows = append(rows, []string{code(field.Path), kindOf(field.Type), defaultOfField(defaults[field.Name]), flagOf(field.Path), meaning(field)})
		}
	}
	if len(rows) > 0 {
		p.table([]string{"field", "type", "default", "flag", "meaning"}, rows)
	}
	for _, field := range f.Fields {
		if field.Fields != nil {
			fmt.Fprintf(&p.text, "\n## %s\n\n%s\n\n", field.Path, introduction(field))
			below, _ := defaults[field.Name].(map[string]any)
			p.settings(field, below)
		}
	}
}

// introduction returns the text below the heading of a structure. Fields within fields may share a type: there the comment of the field says more.
func introduction(field settings.Field) string {
	if strings.Contains(field.Path, ".") {
		return field.Comment
	}
	return field.TypeComment
}

// kindOf returns the type of a field in a user's words.
func kindOf(t reflect.Type) string {
	if t == settings.IntOrString {
		return "integer or percentage"
	}
	switch t.Kind() {
	case reflect.Slice:
		return "list of " + pluralOf(t.Elem())
	case reflect.Map:
		return "map of " + pluralOf(t.Elem())
	case reflect.Int, reflect.Int32:
		return "integer"
	case reflect.String:
		return "string"
	case reflect.Float64:
		return "number"
	case reflect.Bool:
		return "boolean"
	}
	return strings.ToLower(t.Name())
}

func pluralOf(t reflect.Type) string {
	kind := kindOf(t)
	if what, of, found := strings.Cut(kind, " of "); found {
		return what + "s of " + of
	}
	return kind + "s"
}

func defaultOfField(value any) string {
	if value == nil || value == "" {
		return ""
	}
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	return code(strings.Trim(string(text), `"`))
}

// flagOf finds the flag of a field: it has the field's name, but for these.
func flagOf(key string) string {
	others := map[string]string{
		"leaderElection.enabled": "leader-elect", "health.bindAddress": "health-probe-bind-address", "log.verbosity": "v",
		"machines.providers": "providers",
	}
	name, found := others[key]
	if !found {
		name = kebab(strings.NewReplacer("leaderElection.", "leaderElect.", "http2", "http2").Replace(key))
	}
	if app.NewCommand().Flags().Lookup(name) == nil {
		return ""
	}
	return code("--" + name)
}

// kebab writes fieldName.otherName as field-name-other-name.
func kebab(key string) string {
	var b strings.Builder
	for _, r := range key {
		switch {
		case r == '.':
			b.WriteByte('-')
		case r >= 'A' && r <= 'Z':
			b.WriteString("-" + strings.ToLower(string(r)))
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// said is what the table has in other columns: the field's name at the beginning of its comment, and its default.
var said = regexp.MustCompile(`^(\w+ (?:(?:is|are) )?)|( Default (?:"[^"]*"|[^:.]+(?:\.\d[^.]*)?)\.)$`)

// meaning is the comment of a field without that.
func meaning(field settings.Field) string {
	text := said.ReplaceAllString(field.Comment, "")
	return strings.ToUpper(text[:1]) + text[1:]
}
