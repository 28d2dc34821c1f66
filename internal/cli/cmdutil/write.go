package cmdutil

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/spf13/cobra"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/drover-io/drover/internal/cli/view"
)

// DryRunFlag is --dry-run.
type DryRunFlag struct{ Mode string }

// The modes of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// AddFlags adds the flag to a command.
func (d *DryRunFlag) AddFlags(command *cobra.Command) {
	command.Flags().StringVar(&d.Mode, "dry-run", dryRunNone, `Must be "none", "server", or "client". `+
		"If client strategy, only print what would be done. If server strategy, submit a server-side request without persisting it.")
	command.Flags().Lookup("dry-run").NoOptDefVal = dryRunClient
	completeWords(command, "dry-run", []string{dryRunNone, dryRunClient, dryRunServer})
}

// Validate checks the flags.
func (d *DryRunFlag) Validate() error {
	switch d.Mode {
	case dryRunNone, dryRunClient, dryRunServer:
		return nil
	}
	return UsageError("--dry-run %q: must be none, client or server", d.Mode)
}

// Enabled reports whether nothing is kept.
func (d *DryRunFlag) Enabled() bool { return d.Mode != dryRunNone }

// Send calls write with a client for the mode; with --dry-run=client it does not.
func (d *DryRunFlag) Send(c client.Client, write func(client.Client) error) error {
	switch d.Mode {
	case dryRunClient:
		return nil
	case dryRunServer:
		c = client.NewDryRunClient(c)
	}
	return write(c)
}

// Note returns what follows the operation in the output.
func (d *DryRunFlag) Note() string {
	return map[string]string{dryRunClient: " (dry run)", dryRunServer: " (server dry run)"}[d.Mode]
}

// PrintFlags are the flags of kubectl for what a command has changed: its name with what was done, or the object with -o.
type PrintFlags struct {
	DryRunFlag

	print *genericclioptions.PrintFlags
}

// AddFlags adds the flags to a command.
func (f *PrintFlags) AddFlags(command *cobra.Command) {
	f.print = genericclioptions.NewPrintFlags("").WithTypeSetter(Scheme)
	f.print.AddFlags(command)
	f.DryRunFlag.AddFlags(command)
}

// Validate checks the flags.
func (f *PrintFlags) Validate() error {
	if _, err := f.print.ToPrinter(); err != nil {
		return usageError{err}
	}
	return f.DryRunFlag.Validate()
}

// Print prints an object, or its name and what was done with it.
func (f *PrintFlags) Print(o *Options, object client.Object, done string) error {
	f.print.NamePrintFlags.Operation = done + f.Note()
	printer, err := f.print.ToPrinter()
	if err != nil {
		return err
	}
	out := o.Out
	if f.print.OutputFlagSpecified() {
		// Documents are not escaped.
		out = Raw(out)
	}
	return printer.PrintObj(object, out)
}

// Change changes fields of exactly the object that was read, if there are any, and prints what was done.
func (f *PrintFlags) Change(ctx context.Context, o *Options, c client.Client, object client.Object, fields map[string]any, done string) error {
	if len(fields) == 0 {
		return f.Print(o, object, done)
	}
	name := NameOf(object)
	switch err := f.patch(ctx, c, object, fields); {
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s was created again in the meantime; check it and run the command again: %w", name, err)
	case err != nil:
		return ExplainWrite(err, "patching "+name, object)
	}
	return f.Print(o, object, done)
}

// ExplainWrite is Explain for a write of an object.
func ExplainWrite(err error, action string, object client.Object) error {
	resource, _ := meta.UnsafeGuessKindToResource(object.GetObjectKind().GroupVersionKind())
	return Explain(err, action, resource.GroupResource())
}

// patch sends a merge patch that has the UID of the object, or with --dry-run=client applies it to the object.
func (d *DryRunFlag) patch(ctx context.Context, c client.Client, object client.Object, fields map[string]any) error {
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		fields["metadata"] = metadata
	}
	metadata["uid"] = object.GetUID()
	content, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("rendering the patch: %w", err)
	}
	if d.Mode == dryRunClient {
		return patchLocally(object, content)
	}
	return d.Send(c, func(c client.Client) error {
		return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, content), FieldManager)
	})
}

// patchLocally makes of an object what a merge patch would, so that it can be shown.
func patchLocally(object client.Object, patch []byte) error {
	before, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("rendering the object: %w", err)
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return fmt.Errorf("patching the object: %w", err)
	}
	reflect.ValueOf(object).Elem().SetZero()
	if err := json.Unmarshal(after, object); err != nil {
		return fmt.Errorf("reading the patched object: %w", err)
	}
	return nil
}

// Allowed reports whether the user may do something.
func Allowed(ctx context.Context, c client.Client, what authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{}
	review.Spec.ResourceAttributes = &what
	err := c.Create(ctx, review)
	return review.Status.Allowed, err
}

// NameOf returns the name of an object as kubectl prints it.
func NameOf(object client.Object) string {
	if kind, err := apiutil.GVKForObject(object, Scheme); err == nil {
		object.GetObjectKind().SetGroupVersionKind(kind)
	}
	return view.NameOf(object)
}
