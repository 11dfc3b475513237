// Package natsx is what Sandjet needs of NATS itself beside its client: a
// connection that never gives up, pipelined publishing with counted acks, and
// streams and consumers that are brought up to date or refused with a reason.
//
// Promises of [Publisher]:
//
//   - Every message is answered exactly once: by the server's ack, by the
//     server's refusal, or by an error that says the outcome is unknown.
//   - A message is sent again only with the same Nats-Msg-Id, so that a lost ack
//     stores nothing twice within the stream's duplicate window.
//   - A refusal that came after an unanswered send says so ([APIError.Resent]):
//     it does not prove that the message is not stored.
//   - Memory is bounded by the number of messages in flight.
package natsx
