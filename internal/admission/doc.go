// Package admission serves the validating webhooks of NodeMaintenance, in both API groups, at the paths and with the texts of the operators that
// Drover replaces. What can be checked without other objects is in the CRDs. The controller checks again what must always be true, because two
// creations may pass the webhook at the same moment.
package admission
