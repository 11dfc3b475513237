package natsx

import "sync"

// waiter turns done into something to wait for; it is used again.
type waiter struct {
	ch chan result
	fn func(Ack, error)
}

type result struct {
	ack Ack
	err error
}

var waiters = sync.Pool{New: func() any {
	w := &waiter{ch: make(chan result, 1)}
	w.fn = func(a Ack, err error) { w.ch <- result{a, err} }
	return w
}}
