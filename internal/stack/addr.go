package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// CheckAddr returns an error if addr is neither empty nor a loopback "host:port".
func CheckAddr(addr string) error {
	_, _, err := splitAddr(addr)
	return err
}

// FreeAddr returns a loopback "host:port" that nobody listens on now. It is not
// kept, but none that the kernel gives away by itself.
func FreeAddr() (string, error) {
	port, err := freePort("127.0.0.1")
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), nil
}

// splitAddr reads "host:port". Empty means a free port on 127.0.0.1, which
// the servers write as port -1. Only loopback is taken.
func splitAddr(addr string) (host string, port int, err error) {
	if addr == "" {
		return "127.0.0.1", -1, nil
	}
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%q: want host:port, such as 127.0.0.1:4222", addr)
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if ip := net.ParseIP(host); ip == nil || !ip.IsLoopback() {
		return "", 0, fmt.Errorf("%q is not loopback: the development stack takes 127.0.0.1, ::1 or localhost only", addr)
	}
	if port, err = strconv.Atoi(p); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("%q: port %q is not 0 to 65535", addr, p)
	}
	if port == 0 {
		port = -1
	}
	return host, port, nil
}

// freePort returns a port that nobody has. It lies below those that the kernel gives
// to who asks for any, and to each outgoing connection: between now and its use only
// somebody who wants this very number can take it.
func freePort(host string) (port int, err error) {
	const lowest, count = 20_000, 10_000
	for range 100 {
		port = lowest + rand.IntN(count)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port))); err == nil {
			return port, l.Close()
		}
	}
	return 0, fmt.Errorf("a free port: %w", err)
}
