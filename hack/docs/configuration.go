package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strings"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/app"
	"github.com/drover-io/drover/internal/config"
)

const configurationIntro = `
The file that ` + "`--config`" + ` names. Every field is optional. A field that does not exist, and a value that cannot be used, is an
error that names the field. A flag goes over its field.

    apiVersion: ` + v1alpha1.APIVersion + `
    kind: ` + v1alpha1.Kind + `
`

// structs are the types of the configuration, as their source has them.
type structs struct {
	types map[string]*ast.StructType
	docs  map[string]string
	// defaults is the default configuration as JSON decodes it.
	defaults map[string]any
	page     *page
}

// configurationPage describes the configuration file from the source of its types and the defaults that the operator fills in.
func configurationPage(source string) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return "", err
	}
	s := &structs{types: map[string]*ast.StructType{}, docs: map[string]string{}, page: newPage("Configuration file", configurationIntro)}
	for _, declaration := range file.Decls {
		s.collect(declaration)
	}
	text, err := json.Marshal(config.Default())
	if err != nil {
		return "", err
	}
	if err := json.Unmarshal(text, &s.defaults); err != nil {
		return "", err
	}
	s.page.text.WriteString("\n")
	if err := s.table("", v1alpha1.Kind); err != nil {
		return "", err
	}
	return s.page.text.String(), nil
}

func (s *structs) collect(declaration ast.Decl) {
	general, ok := declaration.(*ast.GenDecl)
	if !ok {
		return
	}
	for _, spec := range general.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		if fields, ok := named.Type.(*ast.StructType); ok {
			s.types[named.Name.Name], s.docs[named.Name.Name] = fields, oneLine(general.Doc)
		}
	}
}

// table writes the fields of a type, then those of the types in it.
func (s *structs) table(prefix, name string) error {
	fields, found := s.types[name]
	if !found {
		return fmt.Errorf("the configuration has a type %s, which is not in the file of its types", name)
	}
	var rows [][]string
	var below [][2]string
	for _, field := range fields.Fields.List {
		if len(field.Names) == 0 { // apiVersion and kind
			continue
		}
		key := prefix + jsonName(field)
		kind := kindOf(field.Type)
		if _, isStruct := s.types[kind]; isStruct {
			below = append(below, [2]string{key, kind})
			continue
		}
		rows = append(rows, []string{code(key), kind, s.defaultOf(key), flagOf(key), meaning(field)})
	}
	if len(rows) > 0 {
		s.page.table([]string{"field", "type", "default", "flag", "meaning"}, rows)
	}
	for _, part := range below {
		fmt.Fprintf(&s.page.text, "\n## %s\n\n%s\n\n", part[0], s.docs[part[1]])
		if err := s.table(part[0]+".", part[1]); err != nil {
			return err
		}
	}
	return nil
}

func jsonName(field *ast.Field) string {
	tag := reflect.StructTag(strings.Trim(field.Tag.Value, "`"))
	name, _, _ := strings.Cut(tag.Get("json"), ",")
	return name
}

// kindOf is the type of a field in a user's words.
func kindOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		return "list of " + kindOf(e.Elt) + "s"
	case *ast.MapType:
		return "map of " + kindOf(e.Value) + "s"
	case *ast.SelectorExpr:
		return strings.ToLower(e.Sel.Name)
	case *ast.Ident:
		words := map[string]string{"int": "integer", "float64": "number", "bool": "boolean"}
		if word, found := words[e.Name]; found {
			return word
		}
		return e.Name
	}
	return "?"
}

func (s *structs) defaultOf(key string) string {
	value := any(s.defaults)
	for step := range strings.SplitSeq(key, ".") {
		fields, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		value = fields[step]
	}
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
		"drain.requestsPerSecond": "drain-requests-per-second", "machines.providers": "providers",
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

func oneLine(doc *ast.CommentGroup) string { return strings.Join(strings.Fields(doc.Text()), " ") }

// said is what the table has in other columns: the field's name at the beginning of its comment, and its default.
var said = regexp.MustCompile(`^(\w+ (?:(?:is|are) )?)|( Default [^:.]+(?:\.\d[^.]*)?\.)$`)

// meaning is the comment of a field without that.
func meaning(field *ast.Field) string {
	text := oneLine(field.Doc)
	if text == "" {
		text = field.Names[0].Name + " are patterns of keys of that kind."
	}
	text = said.ReplaceAllString(text, "")
	return strings.ToUpper(text[:1]) + text[1:]
}
