package view

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// UpgradeStatusList is what `upgrade status` shows.
type UpgradeStatusList struct {
	TypeMeta
	Items []UpgradeStatus `json:"items"`
}

// UpgradeStatus is the progress of one run.
type UpgradeStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Phase     string `json:"phase,omitempty"`
	// Version is the target version.
	Version string `json:"version,omitempty"`
	Done    int    `json:"done"`
	Failed  int    `json:"failed"`
	Total   int    `json:"total"`
	// Message is what the run waits for.
	Message  string       `json:"message,omitempty"`
	Created  time.Time    `json:"created"`
	Started  *metav1.Time `json:"started,omitempty"`
	Finished *metav1.Time `json:"finished,omitempty"`
	// Nodes are those that the status of the run names, in their order.
	Nodes []mutex.NodeStatus `json:"nodes,omitempty"`
}

// NewUpgradeStatusList returns the document of `upgrade status`.
func NewUpgradeStatusList(runs []*mutex.MutexRunConfig) *UpgradeStatusList {
	list := &UpgradeStatusList{TypeMeta: TypeMeta{APIVersion, "UpgradeStatusList"}, Items: []UpgradeStatus{}}
	for _, run := range runs {
		status := &run.Status
		list.Items = append(list.Items, UpgradeStatus{
			Namespace: run.Namespace, Name: run.Name, Phase: string(status.Phase), Version: status.Version, Done: int(status.Done),
			Failed: int(status.Failed), Total: int(status.Total), Message: status.Message, Created: run.CreationTimestamp.Time,
			Started: status.Started, Finished: status.Finished, Nodes: status.Nodes,
		})
	}
	return list
}

// Elapsed returns how long a node has been, or was, in the upgrade; false if it has not started, or if it is not known when it ended.
func Elapsed(node *mutex.NodeStatus, now time.Time) (time.Duration, bool) {
	switch {
	case node.Started == nil, node.Finished == nil && node.Phase == mutex.NodeDone:
		return 0, false
	case node.Finished != nil:
		now = node.Finished.Time
	}
	return now.Sub(node.Started.Time), true
}
