// Package schematest proves in tests that a Go type and the JSON Schema of its
// messages agree: the same fields of the same types, none more and none less,
// and each of the schema's examples survives the way through the Go type.
package schematest
