// Package ownership decides which labels, annotations and taints of an object are Drover's to set and remove.
//
// It is pure: a three-way merge of what was owned before, what is declared now and what stands on the object, for any
// string map. Taints take part as a map from "key:Effect" to value. The rules:
// only what is recorded as owned is ever changed or removed, unless a policy says adopt, and the record is written
// together with the thing it records.
package ownership
