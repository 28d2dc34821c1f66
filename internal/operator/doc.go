// Package operator builds the process around the capabilities: client, caches and what they drop, leader election, probes, metrics,
// and the switch that starts and stops capabilities as their CRDs come and go.
package operator
