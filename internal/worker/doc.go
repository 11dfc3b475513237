// Package worker is the room where jobs, events, the Redis view and E2B meet: it
// takes jobs, drives sandboxes and tells what happened.
//
// One job's way:
//
//	fetched into a free slot -> lane of the session -> claim (the fence)
//	-> doorway (the session has a running sandbox) -> its work -> terminal event -> ack
//
// What holds it together:
//
//   - Ownership is the claim, never the ack. Every event of a job is published
//     against the claim's stream sequence; the server refuses whoever lost it.
//   - Every effect can be met again: creating a sandbox is found by its attempt
//     id, a command by its directory, a file by its content. Whoever takes a job
//     over reads its history and goes on from there.
//   - Errors become fates in one table, classify.go, and one pure function,
//     jobs.Decide.
package worker
