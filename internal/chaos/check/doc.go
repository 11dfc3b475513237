// Package check holds the promises of a deployment as pure functions over what
// was written down of a campaign: the events of every job and session, the
// commands' own ledger, the sandbox server's journal, the dead letters and what
// Redis held. Each check counts what it has looked at and says what was wrong, so
// that "no violation" is never a check that saw nothing.
package check
