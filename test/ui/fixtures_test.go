package ui

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/browser"
	"github.com/drover-io/drover/test/eventually"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// labelPool is the label in the selectors of these tests' groups.
const labelPool = "example.com/pool"

// fixture is a control plane with the Nodes of a test, and Chromium.
type fixture struct {
	*harness.World
	name     string
	chromium *browser.Browser
}

// newFixture registers Nodes that are Ready. It skips the test without Chromium.
func newFixture(t *testing.T, name string, count int) *fixture {
	t.Helper()
	chromium := browser.Start(t)
	f := &fixture{World: harness.NewWorld(t, env), name: name, chromium: chromium}
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(16)
	for i := range count {
		group.Go(func() error {
			// A busy API server may refuse a Node until it has read what its policies need.
			return eventually.Until(ctx, harness.Patience, 100*time.Millisecond, func() error { return f.register(ctx, f.node(i)) })
		})
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := f.Client.DeleteAllOf(ctx, &corev1.Node{}, client.MatchingLabels{labelPool: name}); err != nil {
			t.Errorf("deleting the Nodes: %v", err)
		}
	})
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	return f
}

// node returns the name of a Node.
func (f *fixture) node(i int) string { return fmt.Sprintf("%s-%05d", f.name, i) }

// register creates a Ready Node, unless it is there.
func (f *fixture) register(ctx context.Context, name string) error {
	node := builder.Node(name, builder.WithNodeLabels(map[string]string{labelPool: f.name}))
	if err := f.Client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	now := time.Now().UTC().Format(time.RFC3339)
	text := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`, now)
	return f.Client.Status().Patch(ctx, node, client.RawPatch(types.StrategicMergePatchType, text))
}

// cordon cordons a Node, as another writer does.
func (f *fixture) cordon(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	return f.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`)))
}

// newGroup returns a NodeGroup that selects the Nodes of the test and declares a label.
func (f *fixture) newGroup() *drover.NodeGroup {
	group := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelPool: f.name}}
	group.Spec.Metadata = &drover.Metadata{Labels: map[string]drover.LabelValue{"example.com/tier": "gold"}}
	return group
}

// create creates an object, and deletes it when the test ends.
func (f *fixture) create(object client.Object) {
	f.Helper()
	if err := f.Client.Create(f.Context(), object); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		if err := f.Client.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
			f.Errorf("deleting %s: %v", object.GetName(), err)
		}
	})
}

// open opens a view of the page, which the administrator serves.
func (f *fixture) open(query string, args ...string) *browser.Page {
	f.Helper()
	return f.openAs("", query, args...)
}

// openAs opens a view of the page, which a user serves.
func (f *fixture) openAs(kubeconfig, query string, args ...string) *browser.Page {
	f.Helper()
	page := f.chromium.Open(f, plugin.ServePage(f.World, kubeconfig, args...), browser.Options{})
	if query != "" {
		// The browser keeps the token.
		page.Eval(fmt.Sprintf("void location.assign(%q)", "./"+query), nil)
		page.Until(fmt.Sprintf("location.search === %q", query))
	}
	return page
}

// as returns the kubeconfig of a user who may read some resources of the core group.
func (f *fixture) as(user string, resources ...string) string {
	f.Helper()
	name := metav1.ObjectMeta{Name: user}
	rules := []rbacv1.PolicyRule{}
	if len(resources) > 0 {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: resources, Verbs: []string{"get", "list", "watch"}})
	}
	f.create(&rbacv1.ClusterRole{ObjectMeta: name, Rules: rules})
	f.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: name, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	})
	config, err := f.Cluster.As(user)
	if err != nil {
		f.Fatal(err)
	}
	path, err := f.Cluster.Kubeconfig(config)
	if err != nil {
		f.Fatal(err)
	}
	return path
}
