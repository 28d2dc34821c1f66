// Package settings describes the configuration of the operator: its fields by Go's types, and the comments in their source.
package settings

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// Field is a field of the configuration, or the configuration as a whole.
type Field struct {
	// Name is the name in the file, Path the name prefixed with the names of the enclosing fields, GoName the name in the source.
	Name, Path, GoName string
	// Comment is the comment of the field, TypeComment the comment of its type.
	Comment, TypeComment string
	// Type is the type of the field; of a pointer what it points to.
	Type reflect.Type
	// Fields are the fields of a structure.
	Fields []Field
}

// Duration is the type of durations, IntOrString the type of numbers and percentages.
var (
	Duration    = reflect.TypeFor[metav1.Duration]()
	IntOrString = reflect.TypeFor[intstr.IntOrString]()
)

// shared is the file of the types that the configuration shares with NodeGroups, relative to the file of the configuration's own types.
const shared = "../../drover/v1alpha1/nodegroup.go"

// Read returns the configuration. source is the file of its types.
func Read(source string) (Field, error) {
	comments, err := commentsOf(filepath.Join(filepath.Dir(source), shared))
	if err != nil {
		return Field{}, err
	}
	own, err := commentsOf(source)
	if err != nil {
		return Field{}, err
	}
	maps.Copy(comments, own)
	return describe(Field{Type: reflect.TypeFor[v1alpha1.DroverConfiguration]()}, comments), nil
}

func describe(f Field, comments map[string]string) Field {
	if f.Type.Kind() == reflect.Pointer {
		f.Type = f.Type.Elem()
	}
	f.TypeComment = comments[f.Type.Name()]
	if f.Type.Kind() != reflect.Struct || f.Type == Duration || f.Type == IntOrString {
		return f
	}
	for i := range f.Type.NumField() {
		field := f.Type.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			continue // apiVersion and kind
		}
		f.Fields = append(f.Fields, describe(Field{
			Name: name, Path: strings.TrimPrefix(f.Path+"."+name, "."), GoName: field.Name, Type: field.Type,
			Comment: comments[f.Type.Name()+"."+field.Name],
		}, comments))
	}
	return f
}

// commentsOf reads the comments of types and of their fields, by "Type" and "Type.Field".
func commentsOf(source string) (map[string]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), source, nil, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	text := func(doc *ast.CommentGroup) string {
		written, _, _ := strings.Cut("\n"+doc.Text(), "\n+") // markers of controller-gen
		return strings.Join(strings.Fields(written), " ")
	}
	comments := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		declaration, ok := node.(*ast.GenDecl)
		if !ok || declaration.Tok != token.TYPE {
			return true
		}
		for _, spec := range declaration.Specs {
			named, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			comments[named.Name.Name] = text(declaration.Doc)
			structure, ok := named.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, field := range structure.Fields.List {
				for _, name := range field.Names {
					comments[named.Name.Name+"."+name.Name] = text(field.Doc)
				}
			}
		}
		return false
	})
	return comments, nil
}
