//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// widthOf is how many columns the terminal has, or 0 where that is not known.
func widthOf(f *os.File) int {
	ws, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0
	}
	return int(ws.Col)
}
