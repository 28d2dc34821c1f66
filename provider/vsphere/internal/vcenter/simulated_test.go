package vcenter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	testingclock "k8s.io/utils/clock/testing"

	simulated "github.com/drover-io/drover/test/vcenter"
)

// newSimulated starts a vCenter and returns its client and a VCenter for it that does not run, with a clock that stands still.
func newSimulated(t *testing.T) (*VCenter, *vim25.Client, *testingclock.FakeClock) {
	t.Helper()
	server, err := simulated.Start(simulated.Options{ClusterID: "cluster-a"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	client, err := server.VIM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	clock := testingclock.NewFakeClock(time.Now())
	credentials := Credentials{Username: simulated.Username, Password: simulated.Password, Secret: "ns/vc"}
	return New(Endpoint{Server: server.URL.Host, Insecure: true}, credentials, Options{
		Calls: &observed{}, Clock: clock, Changed: func(string) {}, IsMachine: func(string) bool { return true },
	}), client, clock
}

// addHost adds a host without a cluster, and waits for it: the simulator has variables of the process, which the vCenter of the next test writes.
func addHost(t *testing.T, client *vim25.Client) *object.Task {
	t.Helper()
	folder, err := find.NewFinder(client).Folder(t.Context(), "/"+simulated.Datacenter+"/host")
	if err != nil {
		t.Fatal(err)
	}
	task, err := folder.AddStandaloneHost(t.Context(), types.HostConnectSpec{HostName: "alone", UserName: "root", Password: "root"}, true, nil, nil)
	if err == nil {
		err = task.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return task
}

// TestReconfigureGroup_StandaloneHost: the resource pool of a workspace may belong to a host without a cluster, which has no groups.
func TestReconfigureGroup_StandaloneHost(t *testing.T) {
	v, client, _ := newSimulated(t)
	task := addHost(t, client)
	info, err := task.WaitForResult(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host, _ := info.Result.(types.ManagedObjectReference)
	var parent mo.ManagedEntity
	if err := property.DefaultCollector(client).RetrieveOne(t.Context(), host, []string{"parent"}, &parent); err != nil {
		t.Fatal(err)
	}
	compute := object.NewComputeResource(client, *parent.Parent).Reference()
	_, err = v.changeGroup(t.Context(), group{cluster: compute, name: simulated.VMGroup}, []types.ManagedObjectReference{ref("vm-1")})
	if !errors.Is(err, ErrNoGroup) {
		t.Errorf("a host without a cluster: %v", err)
	}
}

// TestDo_Panics: an answer that govmomi cannot take over is an error of the call.
func TestDo_Panics(t *testing.T) {
	v, _, _ := newSimulated(t)
	err := v.do(t.Context(), func(ctx context.Context, current *login) error {
		var cluster mo.ClusterComputeResource
		return property.DefaultCollector(current.client).RetrieveOne(ctx, current.client.ServiceContent.RootFolder, []string{"name"}, &cluster)
	})
	if err == nil || !strings.Contains(err.Error(), "the answer of the vCenter is not understood") {
		t.Errorf("error %v", err)
	}
}

// TestDo_RESTSessionEnds: when the session of the REST API ends, it is renewed; the session of the SOAP API stays.
func TestDo_RESTSessionEnds(t *testing.T) {
	v, client, clock := newSimulated(t)
	tag := func() error {
		id, err := v.FindTag(t.Context(), "openshift-cluster-a", "cluster-a")
		if err == nil && id == "" {
			err = errors.New("there is no tag")
		}
		return err
	}
	host, err := find.NewFinder(client).HostSystem(t.Context(), "/"+simulated.Datacenter+"/host/"+simulated.Cluster+"/"+simulated.Cluster+"_H0")
	if err != nil {
		t.Fatal(err)
	}
	location := func() error {
		found, err := v.Location(t.Context(), host.Reference(), [2]string{simulated.RegionCategory, simulated.ZoneCategory})
		if err == nil && found != [2]string{simulated.Region, simulated.Zone} {
			err = fmt.Errorf("it is in %q", found)
		}
		return err
	}
	if err := errors.Join(tag(), location()); err != nil {
		t.Fatal(err)
	}
	before := v.sessions.current
	for name, look := range map[string]func() error{"tag": tag, "location": location} {
		if err := before.rest.client.Logout(t.Context()); err != nil {
			t.Fatal(err)
		}
		clock.Step(keepLookups)
		if err := look(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if v.sessions.current != before {
		t.Error("the session of the SOAP API has been renewed, too")
	}
}

// TestCheckGone_Hidden: if virtual machines are not shown any more, only Machines' virtual machines that still exist are reported as hidden.
func TestCheckGone_Hidden(t *testing.T) {
	v, client, _ := newSimulated(t)
	finder := find.NewFinder(client)
	template, err := finder.VirtualMachine(t.Context(), "/"+simulated.Datacenter+"/vm/"+simulated.Template)
	if err != nil {
		t.Fatal(err)
	}
	datacenter, err := finder.Datacenter(t.Context(), simulated.Datacenter)
	if err != nil {
		t.Fatal(err)
	}
	v.index.isMachine = func(instanceUUID string) bool { return instanceUUID != "foreign" }
	// What the references are of does not matter.
	own, foreign, gone := newVM("own", "own"), newVM("foreign", "foreign"), newVM("gone", "gone")
	own.Ref, foreign.Ref = template.Reference(), datacenter.Reference()
	all := map[types.ManagedObjectReference]*VM{own.Ref: own, foreign.Ref: foreign, gone.Ref: gone}
	v.index.replace(all)
	current, err := v.sessions.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	left := map[types.ManagedObjectReference]*VM{own.Ref: nil, foreign.Ref: nil, gone.Ref: nil}
	if err := (&watcher{vcenter: v, login: current, complete: true}).checkGone(t.Context(), left, &types.UpdateSet{}); err != nil {
		t.Fatal(err)
	}
	v.index.update(left)
	expect := func(when string) {
		t.Helper()
		var hidden *HiddenError
		_, err := v.index.Get("own")
		_, named := v.index.Find("own")
		if !errors.As(err, &hidden) || !errors.As(named, &hidden) {
			t.Errorf("%s: %v, %v", when, err, named)
		}
		for _, uuid := range []string{"foreign", "gone"} {
			if vm, err := v.index.Get(uuid); vm != nil || err != nil {
				t.Errorf("%s: %s is %+v, %v", when, uuid, vm, err)
			}
		}
	}
	expect("after an update")
	if err := (&watcher{vcenter: v, login: current}).checkGone(t.Context(), nil, &types.UpdateSet{}); err != nil {
		t.Fatal(err)
	}
	v.index.replace(map[types.ManagedObjectReference]*VM{})
	expect("after a sweep")
	v.index.update(map[types.ManagedObjectReference]*VM{own.Ref: own})
	if vm, err := v.index.Get("own"); vm == nil || err != nil {
		t.Errorf("it is shown again: %+v, %v", vm, err)
	}
}

// TestCheckGone_ManyHidden: one virtual machine that exists among many that are gone has none of them count as gone.
func TestCheckGone_ManyHidden(t *testing.T) {
	v, client, _ := newSimulated(t)
	template, err := find.NewFinder(client).VirtualMachine(t.Context(), "/"+simulated.Datacenter+"/vm/"+simulated.Template)
	if err != nil {
		t.Fatal(err)
	}
	own := newVM("own", "own")
	own.Ref = template.Reference()
	all, left := map[types.ManagedObjectReference]*VM{own.Ref: own}, map[types.ManagedObjectReference]*VM{own.Ref: nil}
	for i := range 5 * maxHidden {
		gone := newVM(fmt.Sprintf("gone-%d", i), fmt.Sprintf("gone-%d", i))
		all[gone.Ref], left[gone.Ref] = gone, nil
	}
	v.index.replace(all)
	current, err := v.sessions.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// The order of a map is another one each time.
	for range 5 {
		err := (&watcher{vcenter: v, login: current, complete: true}).checkGone(t.Context(), left, &types.UpdateSet{})
		if err == nil || !strings.Contains(err.Error(), "are not shown to this user any more") {
			t.Errorf("error %v", err)
		}
	}
}

// TestExists: a virtual machine that is not shown is asked for by its reference. One with the UUID of another is another one.
func TestExists(t *testing.T) {
	v, client, _ := newSimulated(t)
	template, err := find.NewFinder(client).VirtualMachine(t.Context(), "/"+simulated.Datacenter+"/vm/"+simulated.Template)
	if err != nil {
		t.Fatal(err)
	}
	reference, uuid := template.Reference().Value, template.UUID(t.Context())
	for _, c := range []struct {
		reference, uuid string
		want            bool
	}{{reference, uuid, true}, {reference, strings.ToUpper(uuid), true}, {reference, "another", false}, {"vm-none", uuid, false}} {
		if exists, err := v.Exists(t.Context(), c.reference, c.uuid); err != nil || exists != c.want {
			t.Errorf("%s with UUID %s: exists %t, error %v", c.reference, c.uuid, exists, err)
		}
	}
}

// TestCollectAgain: what fails each time before the index is complete is tried less and less often.
func TestCollectAgain(t *testing.T) {
	wait := time.Duration(0)
	for _, seconds := range []int{1, 2, 4, 8, 16, 30, 30} {
		if wait = collectAgain(wait, false); wait != time.Duration(seconds)*time.Second {
			t.Errorf("it waits %s, want %ds", wait, seconds)
		}
	}
	if wait = collectAgain(wait, true); wait != time.Second {
		t.Errorf("it waits %s after the index was complete", wait)
	}
}

// TestReadTasks: tasks are read in one call, and in another one without a task that is gone.
func TestReadTasks(t *testing.T) {
	v, client, _ := newSimulated(t)
	known, gone := addHost(t, client).Reference(), types.ManagedObjectReference{Type: "Task", Value: "task-gone"}
	calls := &observed{}
	v.sessions.calls = calls
	current, err := v.sessions.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := len(calls.methods)
	found, err := readTasks(t.Context(), property.DefaultCollector(current.client), []types.ManagedObjectReference{gone, known})
	if err != nil || len(found) != 1 || found[0].Self != known || found[0].Info.DescriptionId == "" {
		t.Errorf("%+v, %v", found, err)
	}
	if made := calls.methods[before:]; len(made) != 2 {
		t.Errorf("the calls are %q", made)
	}
}
