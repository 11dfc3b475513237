package local

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownNetwork says whether sandboxes of a level have a network of their own: one
// with a loopback and its egress proxy on it, and nothing else. Whoever is not
// root cannot enter it to reach a sandbox's ports.
func (m *machine) ownNetwork(level Isolation) bool {
	return m.noNetwork && level == Strong && m.users.mapped
}

// openNetwork keeps the way to the jail's ports.
func (j *jail) openNetwork() (err error) {
	if j.ownNetwork(j.level) {
		j.net, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", j.holder))
	}
	return err
}

var errNotOpen = errors.New("the port is not open")

// dial connects to a port of the sandbox.
func (s *sandbox) dial(ctx context.Context, port string) (net.Conn, error) {
	own := -1
	err := s.awake(func(j *jail) (err error) {
		if s.egress.port() == port { // for who is inside
			return errNotOpen
		}
		if j.net != nil {
			own, err = unix.FcntlInt(j.net.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if own < 0 {
		return dialLoopback(ctx, port)
	}
	defer unix.Close(own)
	var conn net.Conn
	err = inNetwork(own, func() (err error) {
		conn, err = dialLoopback(ctx, port)
		return err
	})
	return conn, err
}

// dialLoopback connects to a port of either loopback address: what listens on
// "localhost" may have only the second one.
func dialLoopback(ctx context.Context, port string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", loopback(port))
	if errors.Is(err, unix.ECONNREFUSED) {
		if six, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("::1", port)); err == nil {
			return six, nil
		}
	}
	return conn, err
}

// listenIn listens on a free port of another network's loopback.
func listenIn(network int) (l net.Listener, err error) {
	err = inNetwork(network, func() (err error) {
		l, err = net.Listen("tcp", loopback("0"))
		return err
	})
	return l, err
}

// inNetwork does what makes a socket in another network. A socket belongs to the
// network of the thread that makes it; the thread ends with that.
func inNetwork(network int, do func() error) error {
	err := errors.New("the thread ended")
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: nobody else may run on it
		if err = unix.Setns(network, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the sandbox's network: %w", err)
			return
		}
		err = do()
	}()
	<-done
	return err
}
