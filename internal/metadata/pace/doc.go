// Package pace decides when a Node may be written: a Limiter bounds the rate of all writes, and a Contention leaves keys alone that another writer
// keeps changing. Everything that writes metadata of Nodes shares them.
package pace
