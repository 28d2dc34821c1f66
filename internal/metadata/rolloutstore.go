package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// ConfigMapName is the ConfigMap in Drover's own namespace that says where the roll-outs of MachineSets are, by the UID of the MachineSet. Authors of
// MachineSets cannot write it.
const ConfigMapName = "drover-metadata-rollouts"

// RolloutStore keeps where the roll-outs of MachineSets are that are under way, so that the next process goes on from there. It is safe for
// concurrent use.
type RolloutStore struct {
	// Live reads the ConfigMap from the API server, and Writer writes it.
	Live   client.Reader
	Writer client.Writer
	// Namespace is Drover's own.
	Namespace string

	mu sync.Mutex
	// rollouts are this process's roll-outs. written are the texts in the ConfigMap at version; it is nil while the ConfigMap has to be read.
	rollouts map[types.UID]*v1alpha1.RolloutStatus
	written  map[string]string
	version  string
}

// load reads the ConfigMap, unless it has been read. Entries of MachineSets that do not exist are dropped with the next write; entries that cannot be
// parsed are ignored.
func (s *RolloutStore) load(ctx context.Context, exists func(types.UID) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written != nil {
		return nil
	}
	found := &corev1.ConfigMap{}
	if err := s.Live.Get(ctx, s.key(), found); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s, which says where the roll-outs of MachineSets are: %w", s.key(), err)
	}
	s.written, s.version = map[string]string{}, found.ResourceVersion
	read := map[types.UID]*v1alpha1.RolloutStatus{}
	for uid, text := range found.Data {
		rollout := &v1alpha1.RolloutStatus{}
		if exists(types.UID(uid)) && json.Unmarshal([]byte(text), rollout) == nil {
			read[types.UID(uid)], s.written[uid] = rollout, text
		}
	}
	if s.rollouts == nil {
		// Later this process knows better.
		s.rollouts = read
	}
	return nil
}

// get returns where the roll-out of a MachineSet is; nil for none that is under way. It must not be changed.
func (s *RolloutStore) get(uid types.UID) *v1alpha1.RolloutStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rollouts[uid]
}

// save records where the roll-out of a MachineSet is; nil for none that is under way. After an error nothing is recorded.
func (s *RolloutStore) save(ctx context.Context, uid types.UID, rollout *v1alpha1.RolloutStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.written == nil {
		return fmt.Errorf("ConfigMap %s has to be read again", s.key())
	}
	before, next := s.written[string(uid)], ""
	if rollout != nil {
		// Which Nodes a wave waits for changes often, and is found out again.
		lasting := *rollout
		lasting.WaitingFor = nil
		text, err := json.Marshal(lasting)
		if err != nil {
			return err
		}
		next = string(text)
	}
	if next != before {
		data := maps.Clone(s.written)
		if data[string(uid)] = next; next == "" {
			delete(data, string(uid))
		}
		if err := s.write(ctx, data); err != nil {
			return fmt.Errorf("writing ConfigMap %s, which says where the roll-outs of MachineSets are: %w", s.key(), err)
		}
		s.written = data
	}
	if s.rollouts[uid] = rollout; rollout == nil {
		delete(s.rollouts, uid)
	}
	return nil
}

// forget drops the roll-out of a MachineSet that is gone. The ConfigMap follows with the next write.
func (s *RolloutStore) forget(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.rollouts, uid)
	delete(s.written, string(uid))
}

// write replaces what the ConfigMap has, unless it has been changed meanwhile. After an error it is read again.
func (s *RolloutStore) write(ctx context.Context, data map[string]string) error {
	next := applyv1.ConfigMap(ConfigMapName, s.Namespace).WithData(data)
	if s.version != "" {
		next.WithResourceVersion(s.version)
	}
	if err := s.Writer.Apply(ctx, next, FieldOwner, client.ForceOwnership); err != nil {
		s.written = nil
		return err
	}
	s.version = ""
	if next.ResourceVersion != nil {
		s.version = *next.ResourceVersion
	}
	return nil
}

func (s *RolloutStore) key() types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: ConfigMapName}
}
