package plan

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
)

// check has the API server judge a manifest by a dry run of what kubectl apply would send. Where no dry run is possible, a warning says so.
func (o *options) check(ctx context.Context, c client.Client, m manifest) error {
	verb, err := m.dryRun(ctx, c)
	if err == nil {
		return nil
	}
	resource, _ := meta.UnsafeGuessKindToResource(m.content.GroupVersionKind())
	why := ""
	switch {
	case cmdutil.IsNotServed(err):
		why = fmt.Sprintf("the cluster does not serve %s", resource.GroupResource())
	case apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not support dry run"):
		why = err.Error()
	case apierrors.IsForbidden(err):
		// An admission plugin or a webhook answers the same to a user who has the right.
		allowed, failure := cmdutil.Allowed(ctx, c, authorizationv1.ResourceAttributes{
			Verb: verb, Group: resource.Group, Resource: resource.Resource, Namespace: m.content.GetNamespace(), Name: m.content.GetName(),
		})
		if failure == nil && !allowed {
			why = fmt.Sprintf("you may not %s %s", verb, resource.GroupResource())
		}
	}
	if why != "" {
		return o.Warn("%s is not validated: %s; the API server may refuse it", &m, why)
	}
	return fmt.Errorf("%s: the API server refuses it: %w", &m, err)
}

// dryRun sends what kubectl apply would, without effect. verb is what the API server was asked for.
func (m manifest) dryRun(ctx context.Context, c client.Client) (verb string, err error) {
	c = client.WithFieldValidation(client.NewDryRunClient(c), metav1.FieldValidationStrict)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(m.content.GroupVersionKind())
	switch err := c.Get(ctx, client.ObjectKeyFromObject(m.content), live); {
	case apierrors.IsNotFound(err) && !cmdutil.IsNotServed(err):
		return "create", c.Create(ctx, m.content.DeepCopy(), cmdutil.FieldManager)
	case err != nil:
		return "get", err
	}
	patch, _, err := m.patch(live)
	if err != nil {
		return "patch", err
	}
	return "patch", c.Patch(ctx, live, client.RawPatch(types.MergePatchType, patch), cmdutil.FieldManager)
}
