// Package admission answers the API server's question whether a NodeMaintenance may be created or changed, in both API groups, at the
// paths and in the words of the operators that Drover replaces. What can be checked without other objects is in the CRDs; what has to
// hold whatever happens is checked again by the controller, since two creations may pass here at the same moment.
package admission
