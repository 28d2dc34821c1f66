package cmdutil

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// OutputFlags are -o, --template and --no-headers.
type OutputFlags struct {
	Format    string
	NoHeaders bool
	flags     *genericclioptions.PrintFlags
}

const formatWide = "wide"

// AddFlags adds the flags to a command.
func (f *OutputFlags) AddFlags(command *cobra.Command) {
	f.flags = &genericclioptions.PrintFlags{
		JSONYamlPrintFlags: genericclioptions.NewJSONYamlPrintFlags(), TemplatePrinterFlags: genericclioptions.NewKubeTemplatePrintFlags(),
		OutputFormat: &f.Format, OutputFlagSpecified: func() bool { return f.Format != "" },
	}
	f.flags.TemplatePrinterFlags.AddFlags(command)
	command.Flags().StringVarP(&f.Format, "output", "o", "", fmt.Sprintf("Output format. One of: (%s).", strings.Join(f.formats(), ", ")))
	completeWords(command, "output", f.formats())
}

// AddNoHeaders adds --no-headers, for commands that print tables.
func (f *OutputFlags) AddNoHeaders(command *cobra.Command) {
	command.Flags().BoolVar(&f.NoHeaders, "no-headers", false, "If true, print tables without headers")
}

func (f *OutputFlags) formats() []string {
	formats := append(f.flags.AllowedFormats(), formatWide)
	slices.Sort(formats)
	return formats
}

// completeWords completes a flag to fixed words.
func completeWords(command *cobra.Command, flag string, words []string) {
	// It fails only for a flag that does not exist.
	_ = command.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// Wide reports whether tables have all columns, and values are in full.
func (f *OutputFlags) Wide() bool { return f.Format == formatWide }

// IsText reports whether the output is for people, and not a document.
func (f *OutputFlags) IsText() bool {
	template := f.flags.TemplatePrinterFlags.TemplateArgument
	return f.Wide() || f.Format == "" && (template == nil || *template == "")
}

// Validate checks the flags.
func (f *OutputFlags) Validate() error {
	if f.IsText() {
		return nil
	}
	_, err := f.flags.ToPrinter()
	if genericclioptions.IsNoCompatiblePrinterError(err) {
		return UsageError("-o %s: unknown output format; use one of %s", f.Format, strings.Join(f.formats(), ", "))
	}
	return err
}

// Render returns what Print prints.
func (f *OutputFlags) Render(document any, draw func(*Text)) (string, error) {
	if f.IsText() {
		text := &Text{Wide: f.Wide(), NoHeaders: f.NoHeaders}
		draw(text)
		return text.String(), nil
	}
	printer, err := f.flags.ToPrinter()
	if err != nil {
		return "", err
	}
	// The printers take runtime objects only.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(document)
	if err != nil {
		return "", fmt.Errorf("rendering the output: %w", err)
	}
	var out bytes.Buffer
	err = printer.PrintObj(&unstructured.Unstructured{Object: content}, &out)
	return out.String(), err
}

// Print prints a document: as -o asks for, or, for people, what draw makes of it.
func (f *OutputFlags) Print(out io.Writer, document any, draw func(*Text)) error {
	text, err := f.Render(document, draw)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f.Stream(out), text)
	return err
}

// Stream returns where to write what Render has returned: documents are not escaped.
func (f *OutputFlags) Stream(out io.Writer) io.Writer {
	if f.IsText() {
		return out
	}
	return Raw(out)
}

// Text is output for people.
type Text struct {
	bytes.Buffer
	// Wide and NoHeaders are as the flags say.
	Wide, NoHeaders bool
}

// Printf adds text. Arguments stay in their line: a line break in one would begin a line that Drover has not written.
func (t *Text) Printf(format string, args ...any) {
	_, _ = fmt.Fprintf(t, format, inLine(args)...) // a buffer takes everything
}

// Columns are the columns of a table; those in Wide are shown with -o wide only.
type Columns struct{ Always, Wide []string }

// Table adds a table, as kubectl prints it.
func (t *Text) Table(columns Columns, rows [][]any) {
	// Neither writing to a buffer nor printing a table fails.
	_ = printers.NewTablePrinter(printers.PrintOptions{Wide: t.Wide, NoHeaders: t.NoHeaders}).PrintObj(NewTable(columns, rows), t)
}
