package operator

import (
	"fmt"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// podNamespace returns the namespace of the Pod that this process runs in.
func podNamespace() (string, error) {
	text, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	return strings.TrimSpace(string(text)), err
}

// newLock returns the lock of the leader election. It records no events: those would be of the old kind in a namespace of their own, and
// need a permission that nothing else needs; the log says which replica leads.
func newLock(config *rest.Config, election v1alpha1.LeaderElection) (resourcelock.Interface, error) {
	namespace := election.Namespace
	if namespace == "" {
		var err error
		if namespace, err = podNamespace(); err != nil {
			return nil, fmt.Errorf("leader election needs a namespace for its lease: this is no Pod (%w); give --leader-elect-namespace, "+
				"or --leader-elect=false where only one Drover runs", err)
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, namespace, election.Name,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, config, election.RenewDeadline.Duration)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return lock, nil
}
