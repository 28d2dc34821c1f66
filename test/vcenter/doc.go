// Package vcenter plays a vCenter for tests, demos and benchmarks, with the simulator of govmomi: an inventory with templates, tags and VM groups,
// TLS, and faults on request. The guest player gives virtual machines that are powered on addresses, and Nodes.
package vcenter
