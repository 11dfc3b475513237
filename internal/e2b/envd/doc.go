// Package envd holds the wire of envd, the daemon inside every E2B sandbox: the
// documented messages of its process and filesystem services, as protocol
// buffers, with the Connect code generated from them.
//
// Run "make generate" after a change to a .proto file.
package envd
