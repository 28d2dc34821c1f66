package operator

import (
	"context"
	"sync"

	"github.com/drover-io/drover/internal/metadata/nodes"
)

// nodeParts are the layers of the metadata of Nodes that capabilities serve.
type nodeParts struct {
	// templates are those of MachineSets, and groups are the NodeGroups; nil for none.
	templates bool
	groups    *nodes.Layer
}

// nodeMetadata runs the controller that writes the metadata of Nodes, for the capabilities that serve a layer of it. It is started anew when a layer
// comes or goes.
type nodeMetadata struct {
	run func(ctx context.Context, parts nodeParts) error

	mu      sync.Mutex
	parts   nodeParts
	current *nodeRun
}

// nodeRun is one run of the controller.
type nodeRun struct {
	cancel context.CancelFunc
	// done is closed when it has ended, with err.
	done chan struct{}
	err  error
}

// serve serves a layer until the context ends. begin adds the layer, and end removes it.
func (n *nodeMetadata) serve(ctx context.Context, begin, end func(*nodeParts)) error {
	n.restart(ctx, begin)
	defer n.restart(ctx, end)
	for {
		run := n.running()
		select {
		case <-ctx.Done():
			return nil
		case <-run.done:
		}
		if n.running() == run {
			return run.err
		}
	}
}

func (n *nodeMetadata) running() *nodeRun {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.current
}

// restart ends the run, and begins one with other layers, if there are any. It outlives the capability that begins it.
func (n *nodeMetadata) restart(ctx context.Context, change func(*nodeParts)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.current != nil {
		n.current.cancel()
		<-n.current.done
		n.current = nil
	}
	change(&n.parts)
	if n.parts == (nodeParts{}) {
		return
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	run := &nodeRun{cancel: cancel, done: make(chan struct{})}
	n.current = run
	go func(parts nodeParts) {
		defer close(run.done)
		defer cancel()
		run.err = n.run(ctx, parts)
	}(n.parts)
}
