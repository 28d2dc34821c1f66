// Package view is what kubectl drover shows, as plain values: documents that a table, `-o json` and a page can present. It computes
// them from objects of the cluster with the operator's own decisions, and knows neither commands nor how they print.
package view

// APIVersion is the version of all documents. Fields are added to it, never changed or removed; neither are the names of kinds and values.
const APIVersion = "kubectl.drover.dev/v1alpha1"

// TypeMeta identifies the kind of a document.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// VersionInfo is what `version` prints.
type VersionInfo struct {
	TypeMeta
	Version string `json:"version"`
	Commit  string `json:"commit"`
	// OperatorVersion is the version of the operator, or its image; empty where it is unknown.
	OperatorVersion string `json:"operatorVersion,omitempty"`
}

// orNone returns nil for the zero value.
func orNone[T comparable](value T) *T {
	if value == *new(T) {
		return nil
	}
	return &value
}

// lookup returns the value of a key, nil if there is none.
func lookup(entries map[string]string, key string) *string {
	if value, found := entries[key]; found {
		return &value
	}
	return nil
}
