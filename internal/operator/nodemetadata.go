package operator

import (
	"context"
	"slices"
	"sync"

	"github.com/drover-io/drover/internal/metadata/grouplayer"
)

// nodeParts are the layers of the metadata of Nodes.
type nodeParts struct {
	// templates reports that what MachineSets declare is served, groups is what NodeGroups declare; nil if that is not served.
	templates bool
	groups    *grouplayer.Layer
}

// nodeMetadata runs the controller that writes the metadata of Nodes, for the capabilities that serve a layer of it. It starts the controller anew
// when a layer comes or goes. A run is a child of a capability that serves a layer: no run outlives the leadership of the process.
type nodeMetadata struct {
	run func(ctx context.Context, parts nodeParts) error

	mu      sync.Mutex
	servers []*nodeServer
	current *nodeRun
}

// nodeServer is a capability that serves a layer until its context ends.
type nodeServer struct {
	context.Context

	add func(*nodeParts)
}

// nodeRun is one run of the controller.
type nodeRun struct {
	cancel context.CancelFunc
	// done is closed when the run has ended, with err. stopped reports that its context has ended it.
	done    chan struct{}
	err     error
	stopped bool
}

// serve serves a layer until the context ends, or until the controller fails. add adds the layer.
func (n *nodeMetadata) serve(ctx context.Context, add func(*nodeParts)) error {
	server := &nodeServer{ctx, add}
	n.change(nil, func() { n.servers = append(n.servers, server) })
	defer n.change(nil, func() {
		n.servers = slices.DeleteFunc(n.servers, func(s *nodeServer) bool { return s == server })
	})
	for {
		run := n.running()
		if run == nil {
			return nil // this capability has ended, too
		}
		select {
		case <-ctx.Done():
			return nil
		case <-run.done:
		}
		if !run.stopped {
			return run.err
		}
		// Layers have changed, or the parent of the run has ended. In the latter case the next run is a child of this capability.
		n.change(run, func() {})
	}
}

func (n *nodeMetadata) running() *nodeRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// change ends the run, changes which capabilities serve a layer, and begins the next run as a child of a capability that has not ended. It does
// nothing if another run than before is the current one; nil is any run.
func (n *nodeMetadata) change(before *nodeRun, servers func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if before != nil && before != n.current {
		return
	}
	if n.current != nil {
		n.current.cancel()
		<-n.current.done
	}
	servers()
	parts, parent := nodeParts{}, (*nodeServer)(nil)
	for _, server := range n.servers {
		if server.Err() == nil {
			parent = server
			server.add(&parts)
		}
	}
	if n.current = nil; parent == nil {
		return
	}
	ctx, cancel := context.WithCancel(parent)
	n.current = &nodeRun{cancel: cancel, done: make(chan struct{})}
	go func(run *nodeRun) {
		defer close(run.done)
		defer cancel()
		run.err = n.run(ctx, parts)
		run.stopped = ctx.Err() != nil
	}(n.current)
}
