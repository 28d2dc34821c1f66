// Package plan decides which annotations the MachineSets of a namespace get because of a MachineAutoscaler, and what its status says.
package plan
