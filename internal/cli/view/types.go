// Package view is what kubectl drover shows, as plain values: documents that a table, `-o json` and a page can present. It computes
// them from objects of the cluster with the operator's own decisions, and knows neither commands nor how they print.
package view

import "time"

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

// timeOf returns a time as documents have it. It returns nil for the zero value, and for a time that JSON cannot have: Kubernetes accepts
// 9999-12-31T23:59:59-14:00, whose year in UTC is 10000.
func timeOf(at time.Time) *time.Time {
	at = at.UTC()
	if at.IsZero() || at.Year() < 0 || at.Year() > 9999 {
		return nil
	}
	return &at
}

// lookup returns the value of a key, nil if there is none.
func lookup(entries map[string]string, key string) *string {
	if value, found := entries[key]; found {
		return &value
	}
	return nil
}
