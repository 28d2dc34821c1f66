// Package admission serves the validating webhooks of NodeMaintenance, in both API groups, at the paths and with the texts of the operators that
// Drover replaces. What can be checked without other objects is in the CRDs. The controller checks again what must always be true, because two
// creations may pass the webhook at the same moment.
package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/quorum"
)

// The texts of node-maintenance-operator, which programs depend on: api/v1beta1/nodemaintenance_webhook.go in medik8s/node-maintenance-operator
// and in kubevirt/node-maintenance-operator.
const (
	textNoNode    = "invalid nodeName, no node with name %s found"
	textExists    = "invalid nodeName, a NodeMaintenance for node %s already exists"
	textImmutable = "updating spec.NodeName isn't allowed"
)

const textUnreadable = "this NodeMaintenance cannot be read: %v"

// defaultTimeout bounds a check. It is shorter than the timeout of the API server, so that the answer has the reason.
const defaultTimeout = 5 * time.Second

// Validator checks the NodeMaintenances of one group.
type Validator struct {
	// Group is the API group.
	Group *maintenance.Group
	// Nodes is the cache of Nodes. Live reads from the API server.
	Nodes, Live client.Reader
	// Finder finds the NodeMaintenances of both groups.
	Finder *Finder
	// Guard protects the control plane; nil for none.
	Guard quorum.Checker
	// Limits are what an administrator has disabled.
	Limits plan.Limits
	// Limiter bounds the requests to the API server, because the webhook does not authenticate its callers: reads of nodes that are not in the cache,
	// and the guard's reads. Nil means no bound.
	Limiter *rate.Limiter

	// timeout is for tests; zero is defaultTimeout.
	timeout time.Duration
}

// NewLimiter returns the Limiter that all validators share: people and programs seldom create NodeMaintenances.
func NewLimiter() *rate.Limiter { return rate.NewLimiter(10, 20) }

func (v *Validator) wait(ctx context.Context) error {
	if v.Limiter == nil {
		return nil
	}
	if err := v.Limiter.Wait(ctx); err != nil {
		return fmt.Errorf("too many requests: %w", err)
	}
	return nil
}

// Path returns the webhook's path for a group. It is the same path as in node-maintenance-operator.
func Path(group *maintenance.Group) string {
	return "/validate-" + strings.ReplaceAll(group.Resource.Group, ".", "-") + "-v1beta1-nodemaintenance"
}

// object is what a check reads of a NodeMaintenance. In the older group, the spec has no drain.
type object struct {
	Metadata metav1.ObjectMeta           `json:"metadata"`
	Spec     medik8s.NodeMaintenanceSpec `json:"spec"`
}

var _ admission.Handler = (*Validator)(nil)

// Handle answers one request.
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(v.timeout, defaultTimeout))
	defer cancel()
	denial, err := v.check(ctx, request)
	logger := log.FromContext(ctx).WithValues("operation", request.Operation)
	switch {
	case err != nil:
		logger.Error(err, "cannot check a NodeMaintenance")
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("this NodeMaintenance could not be checked, please try again: %w", err))
	case denial != "":
		logger.Info("denied a NodeMaintenance", "reason", denial)
		return admission.Denied(denial)
	}
	return admission.Allowed("")
}

// check returns why a request is denied; empty when it is allowed.
func (v *Validator) check(ctx context.Context, request admission.Request) (denial string, err error) {
	if request.SubResource != "" {
		return "", nil
	}
	var after, before object
	switch request.Operation {
	case admissionv1.Create:
		if err := json.Unmarshal(request.Object.Raw, &after); err != nil {
			return fmt.Sprintf(textUnreadable, err), nil
		}
		return v.checkCreation(ctx, &after.Spec)
	case admissionv1.Update:
		if err := json.Unmarshal(request.OldObject.Raw, &before); err != nil {
			return "", fmt.Errorf("reading the old object: %w", err)
		}
		if err := json.Unmarshal(request.Object.Raw, &after); err != nil {
			return fmt.Sprintf(textUnreadable, err), nil
		}
		return v.checkUpdate(&before, &after), nil
	}
	return "", nil
}

// checkCreation checks in the order of node-maintenance-operator: the answer has the first check that fails.
func (v *Validator) checkCreation(ctx context.Context, spec *medik8s.NodeMaintenanceSpec) (denial string, err error) {
	node, err := v.node(ctx, spec.NodeName)
	if err != nil {
		return "", err
	}
	if node == nil {
		return fmt.Sprintf(textNoNode, spec.NodeName), nil
	}
	exists, err := v.Finder.HasMaintenance(ctx, spec.NodeName)
	if err != nil {
		return "", err
	}
	if exists {
		return fmt.Sprintf(textExists, spec.NodeName), nil
	}
	// A dry run does nothing to the node; when it becomes a real one, the controller asks the guard.
	isDryRun := spec.Drain != nil && spec.Drain.DryRun
	if v.Guard != nil && !isDryRun && v.Guard.Applies(node) {
		if err := v.wait(ctx); err != nil {
			return "", err
		}
		denial, err := v.Guard.Check(ctx, node)
		if err != nil {
			return "", err
		}
		if denial != "" {
			return fmt.Sprintf("%s: %s", v.Group.QuorumText(spec.NodeName), denial), nil
		}
	}
	return cmp.Or(checkRules(spec), v.Limits.Denial(spec.Drain)), nil
}

// node reads a Node, and returns nil if there is none. A Node that has just been created may not be in the cache yet.
func (v *Validator) node(ctx context.Context, name string) (*corev1.Node, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil // no Node has such a name
	}
	node := &corev1.Node{}
	err := v.Nodes.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		if err := v.wait(ctx); err != nil {
			return nil, err
		}
		err = v.Live.Get(ctx, types.NamespacedName{Name: name}, node)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	}
	return node, nil
}

// checkUpdate allows every update that does not change the spec, and every one of an object that is being deleted, whose finalizers have to be
// removed.
func (v *Validator) checkUpdate(before, after *object) string {
	switch {
	case after.Metadata.DeletionTimestamp != nil, apiequality.Semantic.DeepEqual(before.Spec, after.Spec):
		return ""
	case before.Spec.NodeName != after.Spec.NodeName:
		return textImmutable
	case v.Limits.Denial(before.Spec.Drain) != "":
		// It is older than the setting; its other fields may still be changed.
		return checkRules(&after.Spec)
	}
	return cmp.Or(checkRules(&after.Spec), v.Limits.Denial(after.Spec.Drain))
}

// checkRules names the field that is invalid.
func checkRules(spec *medik8s.NodeMaintenanceSpec) string {
	if _, err := plan.DrainOptions(spec.Drain); err != nil {
		return err.Error()
	}
	return ""
}
