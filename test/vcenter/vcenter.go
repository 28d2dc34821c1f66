package vcenter

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vapi/rest"
	_ "github.com/vmware/govmomi/vapi/simulator" // the REST API, which has the tags
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
)

// The inventory.
const (
	// Datacenter, Cluster, Datastore and Network are the names of the only ones.
	Datacenter = "DC0"
	Cluster    = "DC0_C0"
	Datastore  = "LocalDS_0"
	Network    = "DC0_DVPG0"
	// Pool is an inventory path.
	Pool = "/DC0/host/DC0_C0/Resources"
	// Template is the name of the template, and VMGroup the name of a group of the cluster.
	Template = "node-template"
	VMGroup  = "nodes"
	// Snapshot is the first snapshot of the template, and CurrentSnapshot the one after it.
	Snapshot        = "installed"
	CurrentSnapshot = "patched"
	// Username is the name of the only user.
	Username = "drover@vsphere.local"
	// Password is the user's.
	Password = "drover-test"
)

// The tags of the inventory: category, and name.
const (
	RegionCategory = "k8s-region"
	Region         = "north"
	ZoneCategory   = "k8s-zone"
	Zone           = "north-1"
)

// Options are what a vCenter is started with. The zero value is a vCenter that answers at once.
type Options struct {
	// CloneDelay is how long a clone takes.
	CloneDelay time.Duration
	// ClusterID is the cluster whose tag the vCenter has, in a category of its own; empty for none.
	ClusterID string
}

// Server is a vCenter that runs.
type Server struct {
	*simulator.Server
	model *simulator.Model
	// ClusterTag is the identity of the tag of the cluster.
	ClusterTag string

	mu sync.Mutex
	// clonesOf are how clones end, by the first letters of the names of their virtual machines; the one without letters is for all others.
	clonesOf map[string]CloneBehavior
	// requests are the last ones for clones, by the names of their virtual machines.
	requests map[string]CloneRequest
	// restStatus is what the REST API answers with; zero for its own answers.
	restStatus int
	password   string
	clones     int
}

// Start starts a vCenter.
func Start(options Options) (*Server, error) {
	model := simulator.VPX()
	model.Host, model.Machine, model.ClusterHost = 0, 1, 3
	if err := model.Create(); err != nil {
		return nil, fmt.Errorf("creating the inventory: %w", err)
	}
	s := &Server{
		model: model, clonesOf: map[string]CloneBehavior{"": {Delay: options.CloneDelay}}, requests: map[string]CloneRequest{}, password: Password,
	}
	model.Map().SessionManager().ValidLogin = s.accepts
	if err := errors.Join(s.createTemplate(), s.replaceViews(), s.replaceCollector()); err != nil {
		model.Remove()
		return nil, err
	}
	model.Service.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	model.Service.RegisterEndpoints = true
	model.Service.Listen = &url.URL{User: url.UserPassword(Username, Password)}
	s.Server = model.Service.NewServer()
	s.Config.Handler = s.refuseREST(s.Config.Handler)
	if err := s.createTags(options.ClusterID); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Stop ends the vCenter.
func (s *Server) Stop() {
	s.Close()
	s.model.Remove()
}

// Site returns where the vCenter is.
func (s *Server) Site() Site {
	return Site{Host: s.URL.Hostname(), Port: s.URL.Port(), ClusterTag: s.ClusterTag}
}

// Clones returns how many clones have ended with a virtual machine.
func (s *Server) Clones() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clones
}

// beginClone records what a clone was asked for with, and returns how it ends.
func (s *Server) beginClone(name string, request CloneRequest) CloneBehavior {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests[name] = request
	return s.cloneOf(name)
}

// isHeld reports whether a clone may not end yet.
func (s *Server) isHeld(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cloneOf(name).Held
}

// cloneOf returns how a clone ends. The lock must be held.
func (s *Server) cloneOf(name string) CloneBehavior {
	longest := ""
	for prefix := range s.clonesOf {
		if strings.HasPrefix(name, prefix) && len(prefix) > len(longest) {
			longest = prefix
		}
	}
	return s.clonesOf[longest]
}

func (s *Server) endClone() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clones++
}

func (s *Server) cloneRequests() map[string]CloneRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.requests)
}

// Machines returns the virtual machines that are no templates.
func (s *Server) Machines() (vms []*simulator.VirtualMachine) {
	for _, entity := range s.model.Map().All("VirtualMachine") {
		if vm, ok := entity.(*simulator.VirtualMachine); ok {
			vms = append(vms, vm)
		}
	}
	return vms
}

// createTags creates the tags of the region, the zone and the cluster.
func (s *Server) createTags(clusterID string) error {
	ctx := context.Background()
	client, err := s.restClient(ctx)
	if err != nil {
		return err
	}
	manager := tags.NewManager(client)
	datacenter, cluster := s.model.Map().Any("Datacenter").Reference(), s.model.Map().Any("ClusterComputeResource").Reference()
	var errs []error
	for _, wanted := range []struct {
		category, name string
		on             *types.ManagedObjectReference
	}{{RegionCategory, Region, &datacenter}, {ZoneCategory, Zone, &cluster}, {"openshift-" + clusterID, clusterID, nil}} {
		if wanted.name == "" {
			continue
		}
		category, err := manager.CreateCategory(ctx, &tags.Category{Name: wanted.category, Cardinality: "SINGLE"})
		errs = append(errs, err)
		id, err := manager.CreateTag(ctx, &tags.Tag{Name: wanted.name, CategoryID: category})
		errs = append(errs, err)
		if wanted.on == nil {
			s.ClusterTag = id
			continue
		}
		errs = append(errs, manager.AttachTag(ctx, id, wanted.on))
	}
	return errors.Join(errs...)
}

// restClient returns a client of the REST API.
func (s *Server) restClient(ctx context.Context) (*rest.Client, error) {
	client, err := s.VIM(ctx)
	if err != nil {
		return nil, err
	}
	restClient := rest.NewClient(client)
	if err := restClient.Login(ctx, url.UserPassword(Username, Password)); err != nil {
		return nil, fmt.Errorf("logging in: %w", err)
	}
	return restClient, nil
}

// VIM returns a client of the SOAP API that has logged in.
func (s *Server) VIM(ctx context.Context) (*vim25.Client, error) {
	return newClient(ctx, s.URL)
}
