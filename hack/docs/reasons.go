package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// event is a row of the page about events.
type event struct {
	Reason, Type, On, When string
}

// condition is a row of the page about conditions.
type condition struct {
	On, Type, Reason, When string
}

// kinds are the kinds of the objects that carry events.
var kinds = []string{
	"any custom resource", "Machine", "MachineAutoscaler", "MachineHealthCheck", "MachineSet", "MutexRunConfig", "Node", "NodeGroup", "NodeMaintenance",
}

// eventsOf returns the events that the packages in some folders declare, as constants named Event... with comments such as
//
//	EventFoo (Warning on Machine, Node): the sentence of the page.
func eventsOf(root string, folders []string) ([]event, error) {
	all, err := descriptionsOf(root, folders, "Event")
	if err != nil {
		return nil, err
	}
	var events []event
	for _, d := range all {
		kind, on, _ := strings.Cut(d.where, " on ")
		if kind != "Normal" && kind != "Warning" {
			return nil, d.errorf("the type %q is neither Normal nor Warning", kind)
		}
		for object := range strings.SplitSeq(on, ", ") {
			if !slices.Contains(kinds, object) {
				return nil, d.errorf("no events are on a %q", object)
			}
		}
		events = append(events, event{d.reason, kind, on, d.text})
	}
	return events, nil
}

// conditionsOf returns the reasons of an object's conditions that the packages in some folders declare, in the order of the conditions. They are
// constants named Reason... with comments such as
//
//	ReasonFoo (Ready): the sentence of the page.
//
//	ReasonFoo (Blocked=True): another sentence, for another condition.
//
// A constant that is never the reason of a condition has "no condition" in the parentheses.
func conditionsOf(root string, source conditionSource) ([]condition, error) {
	all, err := descriptionsOf(root, source.folders, "Reason")
	if err != nil {
		return nil, err
	}
	byType := map[string][]condition{}
	for _, d := range all {
		if d.where == "no condition" {
			continue
		}
		kind, value, hasStatus := strings.Cut(d.where, "=")
		if !source.has(kind) {
			return nil, d.errorf("the condition %q is unknown", kind)
		}
		if hasStatus {
			if !slices.Contains([]string{"True", "False", "Unknown"}, value) {
				return nil, d.errorf("the status %q is unknown", value)
			}
			d.text = value + ": " + d.text
		}
		byType[kind] = append(byType[kind], condition{Type: kind, Reason: d.reason, When: d.text})
	}
	var conditions []condition
	for _, kind := range source.kinds {
		for _, name := range kind.conditions {
			if len(byType[name]) == 0 {
				return nil, fmt.Errorf("no reason in %v is of the condition %s of %s", source.folders, name, kind.name)
			}
			for _, c := range byType[name] {
				c.On = kind.name
				conditions = append(conditions, c)
			}
		}
	}
	return conditions, nil
}

// conditionSource names the packages with the reasons of some kinds' conditions.
type conditionSource struct {
	folders []string
	kinds   []conditionKind
}

// conditionKind is a kind of objects, or several with commas, and its conditions in the order of the page.
type conditionKind struct {
	name       string
	conditions []string
}

func (s conditionSource) has(condition string) bool {
	return slices.ContainsFunc(s.kinds, func(k conditionKind) bool { return slices.Contains(k.conditions, condition) })
}

// description is what a comment says about a constant: where its value appears, and when.
type description struct {
	position            token.Position
	name, reason, where string
	text                string
}

func (d *description) errorf(format string, values ...any) error {
	return fmt.Errorf("%s: %s: %s", d.position, d.name, fmt.Sprintf(format, values...))
}

// described is a paragraph of a comment that describes a constant.
var described = regexp.MustCompile(`^(\w+) \(([^)]+)\): (.+)\.$`)

// descriptionsOf returns the descriptions of all constants with a prefix. A constant without one is an error.
func descriptionsOf(root string, folders []string, prefix string) ([]description, error) {
	var all []description
	for _, folder := range folders {
		p, err := parsePackage(filepath.Join(root, folder))
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, c := range p.constants {
			if !strings.HasPrefix(c.name, prefix) {
				continue
			}
			d := description{position: p.files.Position(c.value.Pos()), name: c.name}
			if d.reason, err = valueOf(c); err != nil {
				return nil, d.errorf("%v", err)
			}
			for paragraph := range strings.SplitSeq(strings.TrimSpace(c.comment), "\n\n") {
				match := described.FindStringSubmatch(strings.ReplaceAll(paragraph, "\n", " "))
				if match == nil || match[1] != c.name {
					return nil, d.errorf("a paragraph of the comment does not begin with %q and end with a full stop: %q", c.name+" (...):", paragraph)
				}
				d.where, d.text = match[2], match[3]
				all = append(all, d)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s has no constant that begins with %s", folder, prefix)
		}
	}
	return all, nil
}

// parsed is the constants of a package.
type parsed struct {
	files     *token.FileSet
	constants []constant
}

type constant struct {
	name, comment string
	value         ast.Expr
	imports       []*ast.ImportSpec
}

func parsePackage(folder string) (*parsed, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	p := &parsed{files: token.NewFileSet()}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(p.files, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declared := range file.Decls {
			if group, ok := declared.(*ast.GenDecl); ok && group.Tok == token.CONST {
				p.add(group, file.Imports)
			}
		}
	}
	return p, nil
}

func (p *parsed) add(group *ast.GenDecl, imports []*ast.ImportSpec) {
	for _, s := range group.Specs {
		spec, ok := s.(*ast.ValueSpec)
		if !ok {
			continue
		}
		comment := spec.Doc
		if !group.Lparen.IsValid() {
			comment = group.Doc
		}
		for i, value := range spec.Values {
			p.constants = append(p.constants, constant{spec.Names[i].Name, comment.Text(), value, imports})
		}
	}
}

// valueOf returns the value of a constant, which is a string or the name of another constant.
func valueOf(c constant) (string, error) {
	switch value := c.value.(type) {
	case *ast.BasicLit:
		return strconv.Unquote(value.Value)
	case *ast.SelectorExpr:
		if qualifier, ok := value.X.(*ast.Ident); ok {
			return imported(c.imports, qualifier.Name, value.Sel.Name)
		}
	}
	return "", fmt.Errorf("the value is neither a string nor a constant of another package")
}

// imported returns the value of a constant of another package.
func imported(imports []*ast.ImportSpec, qualifier, name string) (string, error) {
	for _, spec := range imports {
		from, _ := strconv.Unquote(spec.Path.Value)
		if local := path.Base(from); spec.Name == nil && local != qualifier || spec.Name != nil && spec.Name.Name != qualifier {
			continue
		}
		p, err := importPackage(from)
		if err != nil {
			return "", err
		}
		for _, c := range p.constants {
			if c.name == name {
				return valueOf(c)
			}
		}
	}
	return "", fmt.Errorf("there is no %s.%s", qualifier, name)
}

// importedPackages are the packages that were read already: to find one takes a run of the go command.
var importedPackages = map[string]*parsed{}

func importPackage(from string) (*parsed, error) {
	if known := importedPackages[from]; known != nil {
		return known, nil
	}
	folder, err := exec.Command("go", "list", "-f", "{{.Dir}}", from).Output() //nolint:gosec,noctx // an import of the repository's own sources
	if err != nil {
		return nil, fmt.Errorf("looking for %s: %w", from, err)
	}
	p, err := parsePackage(strings.TrimSpace(string(folder)))
	importedPackages[from] = p
	return p, err
}
