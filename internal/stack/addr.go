package stack

import (
	"fmt"
	"net"
	"strconv"
)

// CheckAddr returns an error if addr is neither empty nor a loopback "host:port".
func CheckAddr(addr string) error {
	_, _, err := splitAddr(addr)
	return err
}

// FreeAddr returns a loopback "host:port" that nobody listens on now. Who is to
// listen there should do so soon: it is not kept.
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
