// Package arch holds no code: its test keeps the house of docs/architecture.md
// standing. The table of floors is in arch_test.go; a package that is not in it
// fails the test, so that somebody decides where it belongs.
package arch
