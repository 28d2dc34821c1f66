package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
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
)

// The texts of node-maintenance-operator, which programs look for: api/v1beta1/nodemaintenance_webhook.go in medik8s/node-maintenance-operator
// and in kubevirt/node-maintenance-operator.
const (
	textNoNode    = "invalid nodeName, no node with name %s found"
	textClaimed   = "invalid nodeName, a NodeMaintenance for node %s already exists"
	textImmutable = "updating spec.NodeName isn't allowed"
)

const textUnreadable = "this NodeMaintenance cannot be read: %v"

// usualPatience is how long a check may take. It is shorter than what the API server waits, so that it answers with the reason.
const usualPatience = 5 * time.Second

// Validator checks the NodeMaintenances of one group.
type Validator struct {
	// Flavour is the group.
	Flavour *maintenance.Flavour
	// Nodes is the cache of Nodes. Live reads from the API server.
	Nodes, Live client.Reader
	// Claims knows the NodeMaintenances of both groups.
	Claims *Claims
	// Guard protects the control plane; nil for none.
	Guard maintenance.Guard
	// Limits are what an administrator has switched off.
	Limits maintenance.Limits

	// Pace bounds what a caller can have the API server asked; nil for no bound.
	Pace *Pace

	// patience is for tests; zero is the usual one.
	patience time.Duration
}

// Pace bounds how often the API server is asked for what the cache does not tell: about a node that is not in it, and what the guard asks. Nobody
// checks who asks the webhook.
type Pace struct{ limiter *rate.Limiter }

// NewPace returns a Pace for all validators: people and programs seldom ask for such a thing.
func NewPace() *Pace { return &Pace{rate.NewLimiter(10, 20)} }

func (p *Pace) wait(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.limiter.Wait(ctx); err != nil {
		return fmt.Errorf("too much is asked at once: %w", err)
	}
	return nil
}

// Path is where the API server finds the webhook of a group: the place of the incumbent's.
func Path(flavour *maintenance.Flavour) string {
	paths := map[string]string{
		maintenance.Medik8s().Name:  "/validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance",
		maintenance.Kubevirt().Name: "/validate-nodemaintenance-kubevirt-io-v1beta1-nodemaintenance",
	}
	return paths[flavour.Name]
}

// object is what a check reads of a NodeMaintenance. The older group's has no drain in its spec; all else is alike.
type object struct {
	Metadata metav1.ObjectMeta           `json:"metadata"`
	Spec     medik8s.NodeMaintenanceSpec `json:"spec"`
}

var _ admission.Handler = (*Validator)(nil)

// Handle answers one request.
func (v *Validator) Handle(ctx context.Context, request admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(v.patience, usualPatience))
	defer cancel()
	denial, err := v.judge(ctx, request)
	logger := log.FromContext(ctx).WithValues("operation", request.Operation)
	switch {
	case err != nil:
		logger.Error(err, "cannot check a NodeMaintenance")
		return admission.Errored(http.StatusServiceUnavailable, fmt.Errorf("this NodeMaintenance could not be checked, please try again: %w", err))
	case denial != "":
		logger.Info("NodeMaintenance refused", "why", denial)
		return admission.Denied(denial)
	}
	return admission.Allowed("")
}

// judge says why a request is refused; empty when it is not.
func (v *Validator) judge(ctx context.Context, request admission.Request) (denial string, err error) {
	if request.SubResource != "" {
		return "", nil
	}
	var after, before object
	switch request.Operation {
	case admissionv1.Create:
		if err := json.Unmarshal(request.Object.Raw, &after); err != nil {
			return fmt.Sprintf(textUnreadable, err), nil
		}
		return v.judgeCreation(ctx, &after.Spec)
	case admissionv1.Update:
		if err := json.Unmarshal(request.OldObject.Raw, &before); err != nil {
			return "", fmt.Errorf("reading the old object: %w", err)
		}
		if err := json.Unmarshal(request.Object.Raw, &after); err != nil {
			return fmt.Sprintf(textUnreadable, err), nil
		}
		return v.judgeChange(&before, &after), nil
	}
	return "", nil
}

// judgeCreation checks in the incumbents' order: the first that fails is what is told.
func (v *Validator) judgeCreation(ctx context.Context, spec *medik8s.NodeMaintenanceSpec) (denial string, err error) {
	node, err := v.node(ctx, spec.NodeName)
	if err != nil {
		return "", err
	}
	if node == nil {
		return fmt.Sprintf(textNoNode, spec.NodeName), nil
	}
	claimed, err := v.Claims.Claimed(ctx, spec.NodeName)
	if err != nil {
		return "", err
	}
	if claimed {
		return fmt.Sprintf(textClaimed, spec.NodeName), nil
	}
	// A dry run does nothing to the node; when it becomes a real one, the controller asks the guard.
	dry := spec.Drain != nil && spec.Drain.DryRun
	if v.Guard != nil && !dry && v.Guard.Applies(node) {
		if err := v.Pace.wait(ctx); err != nil {
			return "", err
		}
		denial, err := v.Guard.Check(ctx, node)
		if err != nil {
			return "", err
		}
		if denial != "" {
			return fmt.Sprintf("%s: %s", v.Flavour.QuorumText(spec.NodeName), denial), nil
		}
	}
	return cmp.Or(judgeRules(spec), v.Limits.Denial(spec.Drain)), nil
}

// node reads a Node, nil when there is none. A Node that came a moment ago may not be in the cache yet.
func (v *Validator) node(ctx context.Context, name string) (*corev1.Node, error) {
	if len(validation.IsDNS1123Subdomain(name)) > 0 {
		return nil, nil // no Node has such a name
	}
	node := &corev1.Node{}
	err := v.Nodes.Get(ctx, types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		if err := v.Pace.wait(ctx); err != nil {
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

// judgeChange lets everything pass that leaves the spec alone, or comes when the object is on its way out: whoever has to remove a
// finalizer must be able to.
func (v *Validator) judgeChange(before, after *object) string {
	switch {
	case after.Metadata.DeletionTimestamp != nil, apiequality.Semantic.DeepEqual(before.Spec, after.Spec):
		return ""
	case before.Spec.NodeName != after.Spec.NodeName:
		return textImmutable
	case v.Limits.Denial(before.Spec.Drain) != "":
		// It is older than the setting, and its other fields may still be changed.
		return judgeRules(&after.Spec)
	}
	return cmp.Or(judgeRules(&after.Spec), v.Limits.Denial(after.Spec.Drain))
}

// judgeRules names the field that cannot be read.
func judgeRules(spec *medik8s.NodeMaintenanceSpec) string {
	if _, err := maintenance.DrainOptions(spec.Drain); err != nil {
		return err.Error()
	}
	return ""
}
