// Package cli is `kubectl drover`, the plugin for kubectl.
//
// It decides with the operator's own code (internal/metadata/plan, internal/drain, internal/upgrade/plan) from the objects of the cluster
// alone, so it also works where Drover is not installed. Each family of commands is a package: it reads objects and prints documents of
// package view. Package cmdutil is what they share.
package cli
