package stack

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
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

// HoldAddr returns a loopback "host:port" that stays the caller's until release, also
// while nobody listens there: for a server that is to come back where it was, and for
// one that is to be away. Whoever sets SO_REUSEADDR may listen there, as Go and
// redis-server do; the kernel gives the port to nobody.
func HoldAddr() (addr string, release func(), err error) {
	syscall.ForkLock.RLock()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return "", nil, fmt.Errorf("hold an address: %w", err)
	}
	port, err := bindReusable(fd)
	if err != nil {
		_ = syscall.Close(fd)
		return "", nil, fmt.Errorf("hold an address: %w", err)
	}
	release = sync.OnceFunc(func() { _ = syscall.Close(fd) })
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), release, nil
}

// bindReusable gives a socket a port of the kernel's choice on 127.0.0.1.
func bindReusable(fd int) (port int, err error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, os.NewSyscallError("bind", err)
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, os.NewSyscallError("getsockname", err)
	}
	return sa.(*syscall.SockaddrInet4).Port, nil
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
