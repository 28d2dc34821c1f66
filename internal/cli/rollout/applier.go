package rollout

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/csaupgrade"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// rollbackManager is the field manager of a rollback until its fields are handed over. Other commands have another field manager, which keeps what
// they have changed, such as spec.suspend.
const rollbackManager = client.FieldOwner("kubectl-drover-rollback")

// applierOf returns the field manager that declares what a revision holds by server-side apply, such as that of a GitOps controller; empty for none.
func applierOf(object client.Object) string {
	restored := "f:template"
	if _, isGroup := object.(*v1alpha1.NodeGroup); isGroup {
		restored = "f:metadata"
	}
	for _, entry := range object.GetManagedFields() {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Subresource != "" || entry.FieldsV1 == nil ||
			json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, declares := fields.Spec[restored]; declares {
			return entry.Manager
		}
	}
	return ""
}

// handOver makes applier the manager of the fields that a rollback has written. Otherwise the next apply would conflict with rollbackManager, and
// would not remove the keys that the applier does not declare.
func handOver(ctx context.Context, c client.Client, object client.Object, applier string) error {
	for attempt := 1; ; attempt++ {
		patch, err := csaupgrade.UpgradeManagedFieldsPatch(object, sets.New(string(rollbackManager)), applier)
		if err == nil && patch != nil {
			err = c.Patch(ctx, object, client.RawPatch(types.JSONPatchType, patch), rollbackManager)
		}
		switch {
		case err == nil:
			return nil
		case !apierrors.IsConflict(err) || attempt == maxAttempts:
			return fmt.Errorf("it is rolled back, but the next apply by %s conflicts: handing the fields over: %w", applier, err)
		}
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
	}
}
