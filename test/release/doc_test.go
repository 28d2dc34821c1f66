// Package release holds what is released to what its users do with it: the archives of the kubectl plugin, the notes of a release, and the
// workflows that make it.
package release

// root is the repository, from here.
const root = "../.."
