// Package certs gives the webhook server its certificate: one that Drover makes and renews itself and shares between its replicas in a
// Secret, or files that somebody else makes.
package certs
