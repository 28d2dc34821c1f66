// Package history keeps what a NodeGroup has declared: its metadata, and the templates of its MachineSets. kubectl drover rollout undo writes a
// revision back.
//
// Revisions are ControllerRevisions in Drover's own namespace, where users of other namespaces cannot write. The NodeGroup owns them, so they go with
// it. They are numbered like the revisions of DaemonSets and StatefulSets: what is declared now has the highest number, and what was declared before
// and is declared again moves up instead of being kept twice (https://github.com/kubernetes/kubernetes/blob/v1.37.1/pkg/controller/daemon/update.go).
package history
