// Package certs provides the certificate of the webhook server: one that Drover creates and renews and that its replicas share in a Secret, or one
// from files that another program writes.
package certs
