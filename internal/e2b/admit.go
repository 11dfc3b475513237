package e2b

import (
	"time"
)

// Class is a class of calls that fail together.
type Class string

// The classes.
const (
	ClassStart   Class = "start"   // create and connect: what makes a sandbox run
	ClassControl Class = "control" // every other call to the control plane
	ClassData    Class = "data"    // calls to envd, in whichever sandbox
)

// Classes lists every class.
func Classes() []Class { return []Class{ClassStart, ClassControl, ClassData} }

// Admit is asked before each call goes out. It lets it through with done, which
// is told once how the call ended (of a stream: how it began), or holds it back,
// for about wait: done is nil and the call fails with ErrHeldBack. It must be
// quick and safe for concurrent use.
type Admit func(class Class, sandbox string) (done func(error), wait time.Duration)

func (x exchange) class() Class {
	switch {
	case x.data:
		return ClassData
	case x.op == "create", x.op == "connect":
		return ClassStart
	}
	return ClassControl
}

// admitted asks whether the call may go out.
func (x exchange) admitted() (done func(error), err error) {
	if x.admit == nil {
		return func(error) {}, nil
	}
	done, wait := x.admit(x.class(), x.sandbox)
	if done == nil {
		return nil, &Error{Op: x.op, Sandbox: x.sandbox, Kind: ErrHeldBack, RetryAfter: wait}
	}
	return done, nil
}
