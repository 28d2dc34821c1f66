package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
)

// output is the flag -o. Documents may also be cut with jsonpath and go-template, as in kubectl.
type output struct {
	format    string
	json      *genericclioptions.JSONYamlPrintFlags
	templates *genericclioptions.KubeTemplatePrintFlags
}

const formatWide = "wide"

func (o *output) addFlags(command *cobra.Command) {
	o.json, o.templates = genericclioptions.NewJSONYamlPrintFlags(), genericclioptions.NewKubeTemplatePrintFlags()
	o.templates.AddFlags(command)
	command.Flags().StringVarP(&o.format, "output", "o", "", "Output format, one of: "+strings.Join(o.formats(), ", "))
	complete(command, "output", o.formats())
}

func (o *output) formats() []string {
	all := append([]string{formatWide}, o.json.AllowedFormats()...)
	all = append(all, o.templates.AllowedFormats()...)
	slices.Sort(all[1:])
	return all
}

func (o *output) wide() bool { return o.format == formatWide }

// table tells that the output is for people.
func (o *output) table() bool {
	if o.templates.TemplateArgument != nil && *o.templates.TemplateArgument != "" {
		return false
	}
	return o.format == "" || o.wide()
}

// stream is where to write what print and the tables have written elsewhere: a document is not escaped.
func (o *output) stream(out io.Writer) io.Writer {
	if o.table() {
		return out
	}
	return raw(out)
}

func (o *output) validate() error {
	if o.table() {
		return nil
	}
	if o.format == "" {
		// As in kubectl, --template alone is enough.
		o.format = "go-template"
	}
	_, err := o.printer()
	return err
}

func (o *output) printer() (interface {
	PrintObj(runtime.Object, io.Writer) error
}, error) {
	if printer, err := o.json.ToPrinter(o.format); err == nil || !genericclioptions.IsNoCompatiblePrinterError(err) {
		return printer, err
	}
	printer, err := o.templates.ToPrinter(o.format)
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return nil, usageError("-o %s: unknown output format; there are %s", o.format, strings.Join(o.formats(), ", "))
	}
	return printer, err
}

// print writes a document in the format asked for. The printers of cli-runtime take runtime objects, hence the detour.
func (o *output) print(out io.Writer, document any) error {
	printer, err := o.printer()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(document)
	if err != nil {
		return fmt.Errorf("rendering the output: %w", err)
	}
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, raw(out))
}
