//go:build !linux

package stack

import "syscall"

// dieWithParent is known to Linux only; elsewhere a child outlives a parent that
// was killed.
func dieWithParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
