// Package ops is what operators see of a worker: health and metrics over HTTP,
// and the answers to the questions of package query over NATS.
package ops
