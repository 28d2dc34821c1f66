package vsphere

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// keepIdle is how long the session of a vCenter is kept that no Machine needs any more: its credentials have changed, or its Machines are gone.
const keepIdle = 30 * time.Minute

// vcenters are the vCenters that Machines are in, one for each endpoint and credentials.
type vcenters struct {
	make  func(vcenter.Endpoint, vcenter.Credentials) *vcenter.VCenter
	clock clock.WithTicker

	mu    sync.Mutex
	ctx   context.Context
	known map[string]*connection
	group sync.WaitGroup
}

// connection is a vCenter that is being followed.
type connection struct {
	*vcenter.VCenter
	used   time.Time
	cancel context.CancelFunc
	// holders are how many operations need it.
	holders int
}

func newVCenters(create func(vcenter.Endpoint, vcenter.Credentials) *vcenter.VCenter, clock clock.WithTicker) *vcenters {
	return &vcenters{make: create, clock: clock, known: map[string]*connection{}}
}

// get returns a vCenter. It is followed from then on.
func (v *vcenters) get(endpoint vcenter.Endpoint, credentials vcenter.Credentials) (*vcenter.VCenter, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ctx == nil || v.ctx.Err() != nil {
		return nil, errNotRunning
	}
	// Secrets with equal credentials share a session. Errors name the first of them.
	key := fmt.Sprintf("%+v %s %x", endpoint, credentials.Username, sha256.Sum256([]byte(credentials.Password)))
	if v.known[key] == nil {
		ctx, cancel := context.WithCancel(v.ctx)
		created := &connection{VCenter: v.make(endpoint, credentials), cancel: cancel}
		v.known[key] = created
		v.group.Go(func() { created.Run(ctx) })
	}
	v.known[key].used = v.clock.Now()
	return v.known[key].VCenter, nil
}

// hold keeps a vCenter followed until the returned function is called.
func (v *vcenters) hold(held *vcenter.VCenter) (release func()) {
	change := func(by int) {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, known := range v.known {
			if known.VCenter == held {
				known.holders += by
				known.used = v.clock.Now()
			}
		}
	}
	change(1)
	return func() { change(-1) }
}

// elsewhere returns an error if another vCenter has the virtual machine of a Machine: the workspace has been changed, and the virtual machine would
// be forgotten. elsewhere also returns an error if another vCenter must answer and cannot be asked. Two names may mean the same vCenter; one
// connection may then learn later than the other that the virtual machine is gone.
func (v *vcenters) elsewhere(ctx context.Context, machine types.UID, than *vcenter.VCenter, mustAnswer func(server string) bool) error {
	for _, other := range v.others(than) {
		vm, err := other.Index().Get(string(machine))
		switch {
		case err != nil && mustAnswer(other.Server()):
			return fmt.Errorf("the virtual machine of the Machine may be in vCenter %s: %w", other.Server(), err)
		case err != nil, vm == nil, other.IsGone(ctx, vm):
			// A vCenter that cannot be asked blocks no Machine of the others.
			continue
		}
		return fmt.Errorf("virtual machine %s of the Machine is in vCenter %s, not in the one that providerSpec.workspace.server says",
			vm.Name, other.Server())
	}
	return nil
}

// isConnected reports whether Drover follows a vCenter.
func (v *vcenters) isConnected(server string) bool {
	return slices.ContainsFunc(v.others(nil), func(other *vcenter.VCenter) bool { return strings.EqualFold(other.Server(), server) })
}

// others returns the vCenters with another name; all of them if than is nil.
func (v *vcenters) others(than *vcenter.VCenter) []*vcenter.VCenter {
	v.mu.Lock()
	defer v.mu.Unlock()
	var found []*vcenter.VCenter
	for _, other := range v.known {
		if than == nil || other.VCenter != than && other.Server() != than.Server() {
			found = append(found, other.VCenter)
		}
	}
	return found
}

// run follows vCenters until the context ends, and disconnects from unused ones.
func (v *vcenters) run(ctx context.Context) {
	v.mu.Lock()
	v.ctx = ctx
	v.mu.Unlock()
	ticker := v.clock.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			v.group.Wait()
			return
		case <-ticker.C():
			v.endIdle()
		}
	}
}

func (v *vcenters) endIdle() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for key, known := range v.known {
		if known.holders == 0 && v.clock.Since(known.used) >= keepIdle {
			known.cancel()
			delete(v.known, key)
		}
	}
}

// namespacedName reads namespace/name.
func namespacedName(text string) (types.NamespacedName, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return types.NamespacedName{}, fmt.Errorf("%q is not of the form namespace/name", text)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}
