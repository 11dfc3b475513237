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
// with a loopback and nothing else. Whoever is not root cannot enter it to
// reach a sandbox's ports.
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

// dial connects to a port of the sandbox.
func (s *sandbox) dial(ctx context.Context, port string) (net.Conn, error) {
	own := -1
	err := s.awake(func(j *jail) (err error) {
		if j.net != nil {
			own, err = unix.FcntlInt(j.net.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if own < 0 {
		return (&net.Dialer{}).DialContext(ctx, "tcp", loopback(port))
	}
	defer unix.Close(own)
	return dialIn(ctx, own, loopback(port))
}

// dialIn connects from within another network. A socket belongs to the network
// of the thread that makes it; the thread ends with that.
func dialIn(ctx context.Context, network int, addr string) (conn net.Conn, err error) {
	done := make(chan struct{})
	err = errors.New("dial: the thread ended")
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked: nobody else may run on it
		if err = unix.Setns(network, unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("enter the sandbox's network: %w", err)
			return
		}
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}()
	<-done
	return conn, err
}
