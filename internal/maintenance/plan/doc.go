// Package plan decides what is done about a NodeMaintenance, and what its status is. It is pure: objects, the time and the answers to requests go
// in, decisions come out. kubectl drover uses it, too.
package plan
