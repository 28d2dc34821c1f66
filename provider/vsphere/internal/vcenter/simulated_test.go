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
		Calls: &observed{}, Clock: clock, Changed: func(string) {},
	}), client, clock
}

// TestReconfigureGroup_StandaloneHost: the resource pool of a workspace may be that of a host without a cluster, which has no groups.
func TestReconfigureGroup_StandaloneHost(t *testing.T) {
	v, client, _ := newSimulated(t)
	folder, err := find.NewFinder(client).Folder(t.Context(), "/"+simulated.Datacenter+"/host")
	if err != nil {
		t.Fatal(err)
	}
	task, err := folder.AddStandaloneHost(t.Context(), types.HostConnectSpec{HostName: "alone", UserName: "root", Password: "root"}, true, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
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

// TestDo_RESTSessionEnds: a session of the REST API that has ended is renewed, that of the SOAP API stays.
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
