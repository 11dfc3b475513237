// Package chaos runs the fault campaign: a seeded workload under seeded faults,
// with real processes on every side, and a look at the end whether every
// promise was kept.
//
// Its rooms:
//
//   - plan: what is published and what is broken, a pure function of the seed.
//   - rig: three NATS servers, Redis, the sandbox server, the workers, each a
//     process of its own, with a TCP proxy on every way between them.
//   - check: the promises, as pure functions over what was written down.
//   - this one: it publishes, injects, waits for quiet, gathers and reports.
//
// The programs are campaign (make chaos, make chaos-long) and soak (make soak).
package chaos
