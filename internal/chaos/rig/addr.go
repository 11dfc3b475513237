package rig

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// freeAddr returns a loopback address that nobody listens on now. Its port is below
// those that the kernel gives to outgoing connections: what listens there is killed
// and started again, and a connection of another process must not take the port
// meanwhile.
func freeAddr() (string, error) {
	for range 1000 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(12_000+rand.IntN(20_000)))
		if l, err := net.Listen("tcp", addr); err == nil {
			return addr, l.Close()
		}
	}
	return "", errors.New("no port is free between 12000 and 32000")
}
