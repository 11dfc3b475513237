// Package store keeps the hot view in Redis: session records, lanes, deadlines,
// running slots, rates, unique keys and the list of jobs. It is a view and never
// the only record: Redis may be wiped at any moment, and everything here is
// rebuilt from the streams and by the Renew of the jobs that run.
//
// Promises:
//
//   - Nothing older overwrites anything newer: records and job views carry the
//     stream sequence they stand for, lane entries the delivery that holds them.
//   - Every call may be sent twice. A call whose answer was lost can be repeated
//     and has the same effect as one.
//   - Whatever a worker registers ends by itself when the worker dies: all of it
//     has a lease, and the clock is Redis TIME, never a worker's own.
//   - At most one exclusive entry of a session has the turn, in any interleaving.
//   - A call takes no longer than the caller's context or one timeout of the
//     connection (2 s unless the URL says otherwise), and then fails with
//     ErrUnavailable.
//   - No script and no command touches keys of two hash slots, so that a Redis
//     Cluster serves as well as a single server. Keys of a session carry the tag
//     {<session>}, keys of the fleet {g}, job views {jobs}, a unique key its own.
//
// All methods of Store may be called concurrently.
package store
