// Package vcenter is what the provider knows of a vCenter and does there: one session for each vCenter and user, an index of the virtual machines
// that one property collector keeps up to date, inventory lookups that are cached, and calls that are limited, batched and counted.
package vcenter
