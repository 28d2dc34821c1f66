package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
)

var setResource = schema.GroupResource{Group: "machine.openshift.io", Resource: "machinesets"}

func TestErrors_OfTheCluster(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"no such resource", apierrors.NewGenericServerResponse(404, "get", setResource, "", "404 page not found", 0, true), "install its CRDs"},
		{"forbidden", apierrors.NewForbidden(setResource, "", fmt.Errorf("no")), "kubectl drover check shows which rights you lack"},
		{"no credentials", apierrors.NewUnauthorized("no"), "log in again"},
		{"nothing there", fmt.Errorf("dial: %w", syscall.ECONNREFUSED), "nothing answers"},
		{"anything else", fmt.Errorf("boom"), "listing machinesets: boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failing := interceptor.Funcs{List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				_, groups := list.(*v1alpha1.NodeGroupList)
				if strings.Contains(fmt.Sprintf("%T", list), "MachineSetList") || groups && cmdutil.IsNotServed(c.err) {
					return c.err
				}
				return inner.List(ctx, list, options...)
			}}
			cluster := fake.NewClientBuilder().WithScheme(cmdutil.Scheme).WithRESTMapper(cmdutil.Mapper()).WithInterceptorFuncs(failing).Build()
			for _, args := range [][]string{{"plan"}, {"status"}, {"status", "--wait"}} {
				got := runOn(t, cluster, "", args...)
				if got.code != exitError || !strings.Contains(got.errors, c.want) || got.out != "" {
					t.Errorf("%v: %+v", args, got)
				}
			}
		})
	}
}

// TestCommands_WithoutMachineAPI: on a cluster that has NodeGroups only, such as one of a cloud provider, every command works on these.
func TestCommands_WithoutMachineAPI(t *testing.T) {
	f, group := batch(t)
	group.Spec.Metadata.Labels["team"] = "red"
	none := interceptor.NewClient(f.client(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if strings.Contains(fmt.Sprintf("%T", list), "v1beta1.Machine") {
				return apierrors.NewGenericServerResponse(404, "get", setResource, "", "404 page not found", 0, true)
			}
			return inner.List(ctx, list, options...)
		},
	})
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"plan", exitChanges, "NodeGroup batch (generation 3, 7 nodes): 7 of 7 would change"},
		{"plan nodegroup/batch", exitChanges, "7 of 7 would change"},
		{"status", exitOK, "NODEGROUP   NODES"},
		{"status --wait --timeout 1s", exitError, `timed out after 1s: Waiting for nodegroup "batch" spec update to be observed`},
		{"status workers", exitError, "the cluster does not serve machine"},
		{"explain batch-0", exitOK, "NodeGroup:    batch"},
	} {
		got := runOn(t, none, "", strings.Fields(c.args)...)
		if got.code != c.code || !strings.Contains(got.out+got.errors, c.want) || strings.Contains(got.out, "is unknown") {
			t.Errorf("%s: %+v", c.args, got)
		}
	}
}

func TestErrors_OfInput(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 1, declare(nil, nil))
	f.group("batch", "blue", nil)
	for _, c := range []struct {
		args string
		want string
		hint bool
	}{
		{"nosuch", `unknown command "nosuch"`, true},
		{"pln", `did you mean "plan"?`, true},
		{"plan --nosuch", "unknown flag: --nosuch", true},
		{"plan -o nosuch", "-o nosuch: unknown output format; use one of go-template", true},
		{"plan --protect-label=*", `--protect-label "*": this pattern matches every key`, true},
		{"plan --unprotect-label=topology.*", `--unprotect-label "topology.*": this is none of the built-in patterns that can be removed: kube`, true},
		{"plan wokers", `MachineSet "wokers" not found in namespace "openshift-machine-api"; did you mean workers?`, false},
		{"plan pool/zzz", `MachineSet "zzz" not found in namespace "openshift-machine-api"; there are workers`, false},
		{"plan -n empty zzz", "choose another with -n", false},
		{"plan -A zzz", "in any namespace", false},
		{"status --timeout 5s", "--timeout requires --wait", true},
		{"status --wait --timeout -5s", "cannot be negative", true},
		{"explain", "name one node, not 0", true},
		{"explain a b", "name one node, not 2", true},
		{"explain node/", `"node/" is not a NODE`, true},
		{"explain workers-00", `Node "workers-00" not found in the cluster; did you mean workers-0?`, false},
		{"pause", "name at least one", true},
		{"pause node/", "is not a MACHINESET, machine/NAME, node/NAME or nodegroup/NAME", true},
		{"pause pod/x", "is not a MACHINESET", true},
		{"pause nodegroup/batch --reason x", "a NodeGroup keeps no reason", true},
		{"pause x --dry-run=maybe", "must be none, client or server", true},
		{"resume nosuch", `MachineSet "nosuch" not found in namespace "openshift-machine-api"; there are workers`, false},
		{"pause node/worker-0", `Node "worker-0" not found in the cluster; did you mean workers-0?`, false},
		{"strt", `did you mean "maintenance start"?`, true},
		{"uncordon workers-0", `did you mean "maintenance end"?`, true},
		{"maintenance strt", `did you mean "start"?`, true},
		{"maintenance uncordon workers-0", `did you mean "end"?`, true},
		{"rollout xyz", "; there are history, pause, resume, status, undo", true},
		{"rollout status batch", `there is no MachineSet "batch"; name the NodeGroup as nodegroup/batch`, false},
		{"status batch", "name the NodeGroup as nodegroup/batch", false},
		{"status nodegroup/btch", `NodeGroup "btch" not found in the cluster; did you mean batch?`, false},
		{"plan batch", "name the NodeGroup as nodegroup/batch", false},
		{"version x", "unknown command", false},
	} {
		t.Run(c.args, func(t *testing.T) {
			got := f.run(t, strings.Fields(c.args)...)
			if got.code != exitError || got.out != "" || !strings.HasPrefix(got.errors, "error: ") || !strings.Contains(got.errors, c.want) {
				t.Errorf("%+v", got)
			}
			if strings.Contains(got.errors, "--help' for usage") != c.hint {
				t.Errorf("hint: %q", got.errors)
			}
		})
	}
}

// TestErrors_Hints: a hint concerns what was asked for.
func TestErrors_Hints(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 1, declare(nil, nil))
	without := interceptor.NewClient(f.client(), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, groups := list.(*v1alpha1.NodeGroupList); groups {
				return apierrors.NewGenericServerResponse(404, "get", v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), "", "404", 0, true)
			}
			return inner.List(ctx, list, options...)
		},
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, key.Name, errors.New("no"))
		},
	})
	for args, want := range map[string]string{
		"plan nodegroup/batch":   "install the CRD of NodeGroups",
		"status nodegroup/batch": "install the CRD of NodeGroups",
		"drain-status workers-0": "kubectl drover check shows",
	} {
		got := runOn(t, without, "", strings.Fields(args)...)
		if got.code != exitError || !strings.Contains(got.errors, want) || strings.Contains(got.errors, "with -n") ||
			strings.Contains(got.errors, "machinesets") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
