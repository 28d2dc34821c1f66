package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	groups "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// depth is how deep the API server takes a value within an object: Go decodes 10,000 levels, and in a list the object is two levels deeper.
const depth = 9995

// withoutStreamedLists has an operator list a kind in one piece, as it does on API servers without WatchList.
func withoutStreamedLists(args ...string) harness.Options {
	return harness.Options{Args: args, Env: []string{"KUBE_FEATURE_WatchListClient=false"}}
}

// TestTenant_DeepRule: a rule that is nested as deep as the API server takes it keeps no other rule from being read.
func TestTenant_DeepRule(t *testing.T) {
	r := newRace(t, "deep-rule")
	asTenant, own, _ := newTenant(t, r.World)
	attack(t, tenant, "a MutexRule that is nested 10,000 levels deep, before Drover starts", func(t *testing.T) string {
		deep := fmt.Sprintf(`{"a":%s%s}`, strings.Repeat("[", depth+1), strings.Repeat("]", depth+1))
		rule := &v1alpha1.MutexRule{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "deep"}, Spec: v1alpha1.MutexRuleSpec{
			JobName: "a", JobNamespace: own, JobSpec: runtime.RawExtension{Raw: []byte(deep)},
		}}
		r.Eventually("the tenant's role is in force", func() error { return asTenant.Create(t.Context(), rule) })
		t.Cleanup(func() {
			if err := r.Client.Delete(context.WithoutCancel(t.Context()), rule); err != nil {
				t.Error(err)
			}
		})
		if err := r.Client.List(t.Context(), &v1alpha1.MutexRuleList{}); err == nil {
			t.Fatal("a client can list the rules: this shows nothing")
		}
		operator := harness.Start(t, env, withoutStreamedLists("--upgrade-namespaces="+r.administrator))
		if err := operator.Says(t.Context(), "capability upgrade: running"); err != nil {
			t.Fatal(err)
		}
		r.declare(r.administrator)
		r.claimed(r.administrator)
		return "Drover takes lists apart without decoding them as a whole"
	})
}

// TestGroupAuthor_DeepManagedFields: no user needs a right to write managedFields, and nothing reads them.
func TestGroupAuthor_DeepManagedFields(t *testing.T) {
	a := newGroupAuthors(t)
	group := a.add(newGroup("deep-managed-fields"))
	attack(t, "author of NodeGroups who may not patch nodes", "managedFields that are nested 10,000 levels deep, before Drover starts",
		func(t *testing.T) string {
			deep := group.DeepCopy()
			fields := strings.Repeat(`{"f:spec":`, depth) + "{}" + strings.Repeat(`}`, depth)
			deep.ManagedFields = []metav1.ManagedFieldsEntry{{
				Manager: "x", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: groups.GroupVersion.String(),
				Time: &metav1.Time{Time: time.Now()}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields),
			}}
			// An update takes the API server 0.2 s, a patch nine, and more than it may take if it is busy.
			if err := a.as.Update(t.Context(), deep); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				none := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))
				if err := a.Client.Patch(context.WithoutCancel(t.Context()), group, none); client.IgnoreNotFound(err) != nil {
					t.Error(err)
				}
			})
			if err := a.Client.List(t.Context(), &groups.NodeGroupList{}); err == nil {
				t.Fatal("a client can list the groups: this shows nothing")
			}
			operator := harness.Start(t, env, withoutStreamedLists("--controllers=node-groups"))
			if err := operator.Says(t.Context(), "capability node-groups: running"); err != nil {
				t.Fatal(err)
			}
			return "Drover does not decode managedFields"
		})
}
