//go:build race

package simulation

// raceDetector reports whether the race detector is on.
const raceDetector = true
