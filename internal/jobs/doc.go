// Package jobs is the way commands come in: what a job looks like on the wire,
// the streams it travels through, how it is fetched, held, given back, put off,
// retried and shelved.
//
// Streams, all with the namespace's prefix:
//
//	JOBS        WorkQueue, Discard New. What publishers write.
//	SCHEDULES   WorkQueue with message schedules. Jobs that wait longer than
//	            MaxHold leave the queue's consumer and come back from here, on
//	            "again." and their own subject.
//	DEAD        Limits. The shelf of jobs that nobody can run.
//	ADVISORIES  WorkQueue. The server's word that a message has used up its
//	            deliveries, when an operator has set a limit.
//
// Promises:
//
//   - A message is fetched only for a free slot; what lands without one is given
//     back with a delay, never with a bare nak.
//   - A job that comes back from SCHEDULES is the same job: id, session, owner,
//     priority, place in the order and time of publication are those of its
//     first message.
//   - Nothing is acknowledged before the record that replaces it is stored: the
//     schedule, the dead letter, or what the handler wrote.
//   - A job is delivered at least once. That it runs once is the business of the
//     claim (package events); an ack is no proof of anything.
package jobs
