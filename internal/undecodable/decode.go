package undecodable

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"github.com/drover-io/drover/internal/bounded"
)

// Decode decodes an object from JSON as the API server writes it into a typed one, which is empty. What Go cannot decode is left out, and the
// object is marked. managedFields are not decoded. As in every typed object that client-go decodes, TypeMeta is empty. The bytes of the text are
// changed. The error is for what is no JSON object with metadata.
func Decode(text []byte, into client.Object) error {
	text = withoutManagedFields(text)
	err := decode(text, into)
	if err == nil {
		return nil
	}
	var fields map[string]any
	if kjson.UnmarshalCaseSensitivePreserveInts(text, &fields) != nil {
		return decodeMetadata(text, into, err)
	}
	p := &pruner{}
	p.prune(fields, reflect.TypeOf(into), "")
	pruned, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("decoding a %s: %w", kindOf(into), err)
	}
	if err := decode(pruned, into); err != nil {
		return fmt.Errorf("decoding a %s: %w", kindOf(into), err)
	}
	mark(into, p.problem())
	return nil
}

// decodeMetadata decodes only the metadata of an object. The rest cannot be decoded at all: it may be nested too deep.
func decodeMetadata(text []byte, into client.Object, problem error) error {
	var metadata []byte
	isObject := eachMember(text, func(of member) bool {
		if string(of.key) == "metadata" {
			metadata = text[of.value:of.to]
		}
		return true
	})
	if !isObject || metadata == nil || decode(slices.Concat([]byte(`{"metadata":`), metadata, []byte(`}`)), into) != nil {
		return fmt.Errorf("decoding a %s: %w", kindOf(into), problem)
	}
	p := &pruner{}
	p.add("the object", problem)
	mark(into, p.problem())
	return nil
}

// DecodeList decodes the objects of a list that was read without their type, as Decode does. create returns an empty object of a kind.
func DecodeList[T client.Object](list *unstructured.UnstructuredList, create func(schema.GroupVersionKind) (T, error)) ([]T, error) {
	objects := make([]T, len(list.Items))
	for i := range list.Items {
		text, err := list.Items[i].MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
		if objects[i], err = create(list.Items[i].GroupVersionKind()); err != nil {
			return nil, fmt.Errorf("reading a list: %w", err)
		}
		if err := Decode(text, objects[i]); err != nil {
			return nil, err
		}
	}
	return objects, nil
}

// decode decodes an object; after an error it is empty.
func decode(text []byte, into client.Object) error {
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, into); err != nil {
		reflect.ValueOf(into).Elem().SetZero()
		return err
	}
	into.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return nil
}

// maxProblems is how many fields an Error names, and maxProblem the longest text of one, in bytes: they quote what users write.
const (
	maxProblems = 3
	maxProblem  = 256
)

// pruner removes what a type cannot be decoded from.
type pruner struct {
	problems []string
	more     int
}

func (p *pruner) problem() string {
	text := strings.Join(p.problems, "; ")
	if p.more > 0 {
		text += fmt.Sprintf("; and %d more", p.more)
	}
	return text
}

func (p *pruner) add(path string, err error) {
	if len(p.problems) == maxProblems {
		p.more++
		return
	}
	text := strings.TrimPrefix(path, ".") + ": " + err.Error()
	p.problems = append(p.problems, bounded.Beginning(text, maxProblem))
}

// prune removes from a value, in place, what cannot be decoded into a type. It returns the value, and whether anything of it is left.
func (p *pruner) prune(value any, of reflect.Type, path string) (kept any, ok bool) {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if !decodesItself(of) {
		switch fields, items := asContainer(value); {
		case fields != nil && of.Kind() == reflect.Struct:
			p.pruneFields(fields, fieldsOf(of), nil, path)
			return fields, true
		case fields != nil && of.Kind() == reflect.Map:
			p.pruneFields(fields, nil, of.Elem(), path)
			return fields, true
		case items != nil && of.Kind() == reflect.Slice:
			return p.pruneItems(items, of.Elem(), path), true
		}
	}
	text, err := json.Marshal(value)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(text, reflect.New(of).Interface())
	}
	if err != nil {
		p.add(path, err)
		return nil, false
	}
	return value, true
}

func asContainer(value any) (fields map[string]any, items []any) {
	fields, _ = value.(map[string]any)
	items, _ = value.([]any)
	return fields, items
}

// pruneFields prunes the members of an object. Their types come from named; if named is nil, all are of type other. A member with the type nil is not
// decoded.
func (p *pruner) pruneFields(fields map[string]any, named map[string]reflect.Type, other reflect.Type, path string) {
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		of := other
		if named != nil {
			of = named[name]
		}
		if of == nil {
			continue
		}
		kept, ok := p.prune(fields[name], of, path+"."+name)
		if !ok {
			delete(fields, name)
			continue
		}
		fields[name] = kept
	}
}

func (p *pruner) pruneItems(items []any, of reflect.Type, path string) []any {
	kept := make([]any, 0, len(items))
	for i, item := range items {
		if item, ok := p.prune(item, of, fmt.Sprintf("%s[%d]", path, i)); ok {
			kept = append(kept, item)
		}
	}
	return kept
}

var (
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

func decodesItself(of reflect.Type) bool {
	pointer := reflect.PointerTo(of)
	return pointer.Implements(jsonUnmarshaler) || pointer.Implements(textUnmarshaler)
}

// fieldsOf returns the types of a struct's members by their names in JSON.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous && !decodesItself(field.Type):
			maps.Copy(fields, fieldsOf(field.Type))
		case name == "" && field.IsExported():
			fields[field.Name] = field.Type
		case name != "-":
			fields[name] = field.Type
		}
	}
	return fields
}
