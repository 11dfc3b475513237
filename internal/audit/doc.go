// Package audit keeps the record of what was done to the outside: one record for each
// effect on E2B, git and GitHub, in the stream AUDIT, each with the hash of the one
// before.
//
// # Chains
//
// Many workers write at once. One chain for all would have them wait for each other
// at every record. So each process has a few chains of its own, each on a subject of its
// own, and writes them in the background: in order, one record at a time, and what is of
// one session in one of them. Chains are tied together
// where they begin: a chain's first record names the newest record of the stream, with
// its hash, so that a whole chain cannot be taken out either once a worker has started
// after it.
//
// # Promises
//
//   - A job's terminal event is written after the records of its effects are stored, or
//     after FlushLimit has passed.
//   - A record that could not be written is counted, and the next one that is written
//     says how many are missing before it.
//   - A process that dies takes with it the records of the effects of its last moments.
//     Its chains are then not closed, which Verify says; its jobs have no terminal event
//     yet, and the worker that takes them over records what it does and joins.
//   - Verify finds a record that was removed, changed or moved, and says where. Of the
//     newest record of each chain a change is found only if the hash in its header was
//     not changed too: keep the heads that Verify prints where nobody who can write to
//     the stream can.
//
// A hash proves the order and the wording, not who wrote: who may publish on audit.> is
// the server's permission to give, and only workers need it.
package audit
