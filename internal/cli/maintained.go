package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// The two groups of NodeMaintenance.
var (
	maintenances = listed{
		"nodemaintenances." + medik8s.GroupVersion.Group, func() client.ObjectList { return &medik8s.NodeMaintenanceList{} }, false,
	}
	olderMaintenances = listed{
		"nodemaintenances." + kubevirt.GroupVersion.Group, func() client.ObjectList { return &kubevirt.NodeMaintenanceList{} }, false,
	}
)

// maintained is a NodeMaintenance of either group.
type maintained struct {
	client.Object
	kind   listed
	spec   medik8s.NodeMaintenanceSpec
	status medik8s.NodeMaintenanceStatus
}

// String names it as kubectl does.
func (m *maintained) String() string {
	return "nodemaintenance." + strings.TrimPrefix(m.kind.resource, "nodemaintenances.") + "/" + m.GetName()
}

// condition returns one of its conditions, an empty one when it is not there.
func (m *maintained) condition(kind string) metav1.Condition {
	if found := meta.FindStatusCondition(m.status.Conditions, kind); found != nil {
		return *found
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown}
}

// Conditions that the plugin looks at.
const (
	conditionDrained = "Drained"
	conditionReady   = "Ready"
)

// drained tells that nothing is left to wait for: by its condition, or by its phase where the incumbent wrote it.
func (m *maintained) drained() bool {
	if len(m.status.Conditions) == 0 {
		return m.status.Phase == medik8s.PhaseSucceeded
	}
	return m.condition(conditionDrained).Status == metav1.ConditionTrue
}

// maintenancesOf lists the NodeMaintenances of both groups, sorted by node and name. A group that is not served has none.
func maintenancesOf(ctx context.Context, c client.Client) ([]*maintained, error) {
	newer, errNewer := list[*medik8s.NodeMaintenance](ctx, c, maintenances, "")
	older, errOlder := list[*kubevirt.NodeMaintenance](ctx, c, olderMaintenances, "")
	switch {
	case missing(errNewer) && missing(errOlder):
		return nil, errNoMaintenances
	case errNewer != nil && !missing(errNewer):
		return nil, errNewer
	case errOlder != nil && !missing(errOlder):
		return nil, errOlder
	}
	var all []*maintained
	for _, object := range newer {
		all = append(all, &maintained{object, maintenances, object.Spec, object.Status})
	}
	for _, object := range older {
		spec := medik8s.NodeMaintenanceSpec{NodeName: object.Spec.NodeName, Reason: object.Spec.Reason}
		all = append(all, &maintained{object, olderMaintenances, spec, object.Status})
	}
	slices.SortFunc(all, func(a, b *maintained) int {
		return cmp.Or(strings.Compare(a.spec.NodeName, b.spec.NodeName), strings.Compare(a.GetName(), b.GetName()))
	})
	return all, nil
}

var errNoMaintenances = errors.New("the cluster serves no NodeMaintenance; install Drover's CRDs (kubectl apply -k config/crd/nodemaintenance) " +
	"or choose another cluster with --context")

// ofNode picks those that name a node.
func ofNode(all []*maintained, node string) []*maintained {
	var found []*maintained
	for _, m := range all {
		if m.spec.NodeName == node {
			found = append(found, m)
		}
	}
	return found
}

// refused turns the answer to a write of a NodeMaintenance into words.
func refused(err error, action string) error {
	switch {
	case apierrors.IsForbidden(err) && !strings.Contains(err.Error(), "admission webhook"):
		return fmt.Errorf("%s: %w\nmaintenance needs create, delete and list (with --wait also get) on nodemaintenances.%s", action, err,
			medik8s.GroupVersion.Group)
	case missing(err):
		return errNoMaintenances
	}
	return explained(err, action, "nodes")
}
