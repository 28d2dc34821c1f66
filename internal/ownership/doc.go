// Package ownership decides which labels, annotations and taints of an object Drover may set and remove.
//
// It is pure: a three-way merge of what was owned before, what is declared now and what the object has, for any string map. Taints are a map
// from "key:Effect" to value. Only what is recorded as owned is changed or removed, unless the policy is adopt, and the record is written together
// with what it records.
package ownership
