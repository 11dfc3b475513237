// Package rig builds what a campaign runs on: a cluster of three NATS servers,
// Redis, the local sandbox server and workers, each a process of its own that can
// be killed and frozen, and a TCP proxy on every way between them that can be cut
// and slowed. All of it listens on loopback and dies with the process that made
// it.
package rig
