package vcenter

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/types"
)

// faults are the faults that a vCenter can be asked for, by the names of their types.
var faults = map[string]types.BaseMethodFault{
	"NoDiskSpace":           &types.NoDiskSpace{Datastore: Datastore},
	"InsufficientResources": &types.InsufficientResourcesFault{},
	"TaskInProgress":        &types.TaskInProgress{},
	"RuntimeFault":          &types.RuntimeFault{},
	"NotAuthenticated":      &types.NotAuthenticated{},
	"ManagedObjectNotFound": &types.ManagedObjectNotFound{},
}

// Faults returns the names of the faults that a vCenter can be asked for, sorted.
func Faults() []string { return slices.Sorted(maps.Keys(faults)) }

// SetBehavior has the vCenter behave so from now on.
func (s *Server) SetBehavior(behavior Behavior) error {
	// Those with longer names go before the one for all, which has none.
	clones := maps.Clone(behavior.Clones)
	if clones == nil {
		clones = map[string]CloneBehavior{}
	}
	clones[""] = CloneBehavior{Delay: behavior.CloneDelay, Fault: behavior.CloneFault}
	for _, clone := range clones {
		if clone.Fault != "" && faults[clone.Fault] == nil {
			return unknownFault(clone.Fault)
		}
	}
	s.mu.Lock()
	s.clonesOf, s.restStatus, s.password = clones, behavior.REST, cmp.Or(behavior.Password, Password)
	s.mu.Unlock()
	for method, name := range behavior.Calls {
		if faults[name] == nil {
			return unknownFault(name)
		}
		s.model.Service.AddFaultRule(&simulator.FaultInjectionRule{
			MethodName: method, ObjectType: "*", ObjectName: "*", Probability: 1, MaxCount: 1,
			FaultType: simulator.FaultTypeCustom, Fault: faults[name], Enabled: true,
		})
	}
	return nil
}

func unknownFault(name string) error {
	return fmt.Errorf("unknown fault %q; there are %s", name, strings.Join(Faults(), ", "))
}

// State returns how the vCenter is.
func (s *Server) State() State {
	state := State{Clones: s.Clones(), Machines: map[string]string{}, Requests: s.cloneRequests()}
	for _, vm := range s.Machines() {
		s.model.Map().WithLock(s.context(), vm, func() { state.Machines[vm.Name] = string(vm.Runtime.PowerState) })
	}
	return state
}

// refuseREST has the REST API answer with the status that was asked for.
func (s *Server) refuseREST(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		s.mu.Lock()
		refused := s.restStatus
		s.mu.Unlock()
		if refused != 0 && (strings.HasPrefix(request.URL.Path, "/rest/") || strings.HasPrefix(request.URL.Path, "/api/")) {
			http.Error(response, "the service is down", refused)
			return
		}
		handler.ServeHTTP(response, request)
	})
}

// accepts reports whether a login has the right user and password.
func (s *Server) accepts(login *types.Login) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return login.UserName == Username && login.Password == s.password
}

// ServeHTTP lets another process look at the vCenter, and have it behave.
func (s *Server) ServeHTTP(response http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodPost {
		var behavior Behavior
		err := json.NewDecoder(request.Body).Decode(&behavior)
		if err == nil {
			err = s.SetBehavior(behavior)
		}
		if err != nil {
			http.Error(response, err.Error(), http.StatusBadRequest)
		}
		return
	}
	_ = json.NewEncoder(response).Encode(s.State())
}
