// Package spool runs a command in a sandbox so that it outlives whoever
// started it.
//
// envd drops output that nobody reads, keeps an exit code for 30 seconds and
// ends with the stream's deadline. So the command is started under a small
// POSIX shell script, in a directory of its own in the sandbox, named by the
// job and its attempt:
//
//   - mkdir of the directory is the once-only lock. It is made by the very
//     process that then runs the command, so a starter that dies half-way
//     leaves either no lock or a running command.
//   - stdout and stderr go to two spool files, so nothing is lost while nobody
//     listens, and reading never holds the command up.
//   - the end is recorded in one file, written under another name and renamed.
//
// Start and join are the same call, [Run.Join]: it launches a runner, which
// does nothing if the directory is there, and shows the spools from the two
// offsets it was given. What the live tail did not show, a ranged read closes.
//
// The scripts ask for no more than busybox has, run under dash, bash and busybox,
// and write below /tmp alone: the home and the rest may be read-only. Where /tmp is
// too, a run is not begun, and the error says what the sandbox says of it.
//
// The files of a run:
//
//	pid      the runner's pid and birth, to tell a dead one from a reused pid
//	cmd      the command's process group
//	out err  the spools; mode 0600
//	given    the sum of the secrets that the command was given; mode 0600
//	stop     why the command was ended early, if it was
//	exit     the end: code, sizes, sums
//	done     the spools were taken away; the directory stays as a tombstone
package spool
