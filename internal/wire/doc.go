// Package wire holds what every message of Sandjet shares: ids, durations as
// JSON writes them, and the namespace that keeps two deployments on one NATS
// server apart. It knows no outside system.
package wire
