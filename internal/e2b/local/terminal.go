package local

import (
	"fmt"
	"os"
	"strconv"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// openTerminal makes a terminal. Where the jail has terminals of its own it is
// one of these, so that its name means something inside.
func (j *jail) openTerminal(size winsize) (master, slave *os.File, err error) {
	if j.level == Strong && j.users.mapped {
		master, slave, err = j.openOwnTerminal()
	} else {
		master, slave, err = pty.Open()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	if err := setSize(master, size); err != nil {
		closeAll(master, slave)
		return nil, nil, err
	}
	return master, slave, nil
}

func (j *jail) openOwnTerminal() (master, slave *os.File, err error) {
	pts := "/proc/" + strconv.Itoa(j.holder) + "/root/dev/pts/"
	fd, err := unix.Open(pts+"ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	n, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(pts+strconv.Itoa(int(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}

func setSize(master *os.File, size winsize) error {
	if err := pty.Setsize(master, &pty.Winsize{Cols: size.cols, Rows: size.rows}); err != nil {
		return fmt.Errorf("size of the terminal: %w", err)
	}
	return nil
}
