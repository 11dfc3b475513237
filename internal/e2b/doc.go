// Package e2b speaks to E2B over HTTP: the control plane that makes, pauses
// and kills sandboxes, and envd inside each sandbox, which runs commands and
// moves files. Commands are shaped like os/exec, files like io/fs.
//
// # Promises
//
//   - Nothing is retried here, not even a read. One method call is at most one
//     request (Pause asks for the state after a 409, a list is one request a
//     page). Who calls decides: each method says in its doc whether it may be
//     repeated blindly. Create may never be.
//   - An error is an *Error with a Kind to test by errors.Is, an *ExitError, or
//     the error of the caller's own context, reader or writer. When the request
//     may have had its effect although no good answer came, errors.Is(err,
//     ErrUnknown) is true as well.
//   - Kinds come from status codes and machine-readable codes, never from prose.
//   - A context's deadline never reaches the wire: envd would take it for the
//     life limit of the process. Closing a stream leaves its process running.
//   - No answer is read without a bound, and no stream is waited for without
//     one: a link that has gone silent ends with ErrStalled.
//   - The API key is asked for on each call and is not kept. No key or token is
//     in an error, in a URL, or sent along a redirect.
package e2b
