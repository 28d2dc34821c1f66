package cmdutil

import (
	"bytes"
	"context"
	"encoding/json"
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

// OutputFlags are -o and --template; for Tables also --no-headers.
type OutputFlags struct {
	Format string
	Tables bool

	noHeaders bool
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
	if f.Tables {
		command.Flags().BoolVar(&f.noHeaders, "no-headers", false, "If true, print tables without headers")
	}
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

// IsText reports whether the output is for people, and not a document.
func (f *OutputFlags) IsText() bool {
	template := f.flags.TemplatePrinterFlags.TemplateArgument
	return f.Format == formatWide || f.Format == "" && (template == nil || *template == "")
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

// Print prints a document: as -o asks for, or, for people, what draw makes of it.
func (f *OutputFlags) Print(o *Options, document any, draw func(*Text)) error {
	if f.IsText() {
		_, err := io.WriteString(o.Out, f.Text(draw))
		return err
	}
	printer, err := f.flags.ToPrinter()
	if err != nil {
		return err
	}
	// The printers take runtime objects only.
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(document)
	if err != nil {
		return fmt.Errorf("rendering the output: %w", err)
	}
	// Documents are not escaped.
	return printer.PrintObj(&unstructured.Unstructured{Object: content}, Raw(o.Out))
}

// Text returns what draw makes of a document.
func (f *OutputFlags) Text(draw func(*Text)) string {
	text := &Text{Wide: f.Format == formatWide, NoHeaders: f.noHeaders}
	draw(text)
	return text.String()
}

// Follow prints documents as they change, until observe reports that it is done. Documents have times where texts have ages, which grow all the time.
func (f *OutputFlags) Follow(
	ctx context.Context, o *Options, wait WaitFlags, observe func(context.Context) (document any, draw func(*Text), done bool, err error),
) error {
	var last []byte
	return o.Follow(ctx, wait, func(ctx context.Context) (bool, error) {
		document, draw, done, err := observe(ctx)
		if err != nil {
			return done, err
		}
		content, err := json.Marshal(document)
		if err != nil || bytes.Equal(content, last) {
			return done, err
		}
		if last != nil && f.IsText() {
			if _, err := io.WriteString(o.Out, "\n"); err != nil {
				return done, err
			}
		}
		last = content
		return done, f.Print(o, document, draw)
	})
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
