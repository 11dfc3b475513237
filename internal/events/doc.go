// Package events writes and reads the facts of Sandjet: what happened to a job,
// what it printed, and what state a session is in. They live in the stream
// EVENTS, one subject event.<session>.<job>.<kind> for each kind of fact.
//
// Promises, and what they rest on:
//
//   - Only one writes. A job's events are written under a [Claim], whose stream
//     sequence the server compares on every publish. Once somebody else has
//     claimed the job, the server refuses the old holder ([ErrLost]); no clock and
//     no client decides that.
//   - Exactly one terminal event. It is written under a claim, a claim writes at
//     most one, and whoever claims a job that was claimed before reads its
//     [History] from the leader first. A claim with prev 0 needs no read: without
//     an earlier claim there can be no terminal event.
//   - No byte of output twice, none missing. Every output message carries the
//     offset of its first byte and is written once, in order; the stream is the
//     checkpoint from which a successor goes on.
//   - Unknown is resolved. A publish whose answer is lost is sent again under the
//     same message id; if the server then refuses it, the record is read back from
//     the leader, so that success is never reported as loss nor the other way.
//   - Reading makes no consumer. [Log.Follow] needs one core subscription and
//     direct gets, however many follow.
package events
