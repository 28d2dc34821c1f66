package operator

import (
	"context"
	"errors"
	"testing"

	"github.com/drover-io/drover/internal/metadata/grouplayer"
)

// servedParts runs nodeMetadata, and reports the layers of each run. A run ends with its context, or with what fail has.
type servedParts struct {
	nodeMetadata

	runs chan nodeParts
	fail chan error
}

func newServedParts() *servedParts {
	s := &servedParts{runs: make(chan nodeParts, 10), fail: make(chan error)}
	s.run = func(ctx context.Context, parts nodeParts) error {
		s.runs <- parts
		select {
		case <-ctx.Done():
			return nil
		case err := <-s.fail:
			return err
		}
	}
	return s
}

// serveTemplates serves the layer of MachineSets until the test ends it; it returns what has come of that.
func (s *servedParts) serveTemplates(t *testing.T) (end context.CancelFunc, ended chan error) {
	t.Helper()
	ctx, end := context.WithCancel(t.Context())
	ended = make(chan error, 1)
	go func() {
		ended <- s.serve(ctx, func(parts *nodeParts) { parts.templates = true })
	}()
	return end, ended
}

// TestNodeMetadata_Serve: one controller runs with the layers that capabilities serve, and goes on when the capability ends that began it.
func TestNodeMetadata_Serve(t *testing.T) {
	s, layer := newServedParts(), &grouplayer.Layer{}
	end, ended := s.serveTemplates(t)
	if parts := <-s.runs; parts != (nodeParts{templates: true}) {
		t.Fatalf("it begins with %+v", parts)
	}
	groups, endGroups := context.WithCancel(t.Context())
	endedGroups := make(chan error, 1)
	go func() {
		endedGroups <- s.serve(groups, func(parts *nodeParts) { parts.groups = layer })
	}()
	if parts := <-s.runs; parts != (nodeParts{true, layer}) {
		t.Fatalf("with NodeGroups it goes on with %+v", parts)
	}
	end()
	if parts, err := <-s.runs, <-ended; parts != (nodeParts{groups: layer}) || err != nil {
		t.Fatalf("without MachineSets it goes on with %+v, %v", parts, err)
	}
	endGroups()
	if err := <-endedGroups; err != nil || s.running() != nil || len(s.runs) > 0 {
		t.Errorf("it ends with %v, and runs: %v", err, s.running() != nil)
	}
}

// TestNodeMetadata_Fails: what has the controller end has the capabilities end that it runs for.
func TestNodeMetadata_Fails(t *testing.T) {
	s, no := newServedParts(), errors.New("no")
	_, ended := s.serveTemplates(t)
	<-s.runs
	s.fail <- no
	if err := <-ended; !errors.Is(err, no) {
		t.Errorf("it ends with %v", err)
	}
}

// TestNodeMetadata_ProcessEnds: when the process loses its lease, all capabilities end at once. No run may begin after that.
func TestNodeMetadata_ProcessEnds(t *testing.T) {
	s, layer := newServedParts(), &grouplayer.Layer{}
	leads, lost := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, add := range []func(*nodeParts){
		func(parts *nodeParts) { parts.templates = true }, func(parts *nodeParts) { parts.groups = layer },
	} {
		go func() { ended <- s.serve(leads, add) }()
		<-s.runs
	}
	lost()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if len(s.runs) > 0 || s.running() != nil {
		t.Errorf("%d runs have begun", len(s.runs))
	}
}
