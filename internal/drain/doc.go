// Package drain empties a node of its pods: what NodeMaintenance, the deletion of a Machine and an upgrade all need. It knows none of
// them. A drain is a state machine that is built anew from the cluster on each pass: Decide says of every pod on the node what is to be
// done and why it is still there, one Queue for all nodes makes the requests, and nobody waits for anything but an event or a time.
package drain
