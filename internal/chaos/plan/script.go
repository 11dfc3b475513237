package plan

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

// Script is what a command does. Every byte it writes follows from it, from the
// job and the attempt.
type Script struct {
	Lines int           // lines on stdout, and every fifth on stderr too
	Every time.Duration // between two lines
	Loud  int           // numbers printed in one go after the lines
	Sleep time.Duration // silence before the end
	Exit  int
	First int // exit status of the first attempt instead, if not 0
}

// prologue tells the ledger that the command has begun, in the command's own
// process, and keeps the connection for as long as anything of the command
// lives. Without the ledger's word nothing is done: a start that nobody counts
// would be a lie.
const prologue = `exec 9<>"/dev/tcp/127.0.0.1/$CHAOS_LEDGER" || exit 97
echo "$SANDJET_RUN" >&9; read -r -u 9 ok || exit 98
r=${SANDJET_RUN%/}; IFS=. read -r _ _ _ a _ <<<"${r##*/}"
`

// Argv is the command line that does it. The job's id is part of the output, so
// that bytes that got to another job are noticed.
func (s Script) Argv(id string) []string {
	var b strings.Builder
	b.WriteString(prologue)
	if s.Lines > 0 {
		fmt.Fprintf(&b, "i=0; while [ $i -lt %d ]; do i=$((i+1)); echo \"%s a$a line $i\"\n", s.Lines, id)
		fmt.Fprintf(&b, "[ $((i%%5)) -ne 0 ] || echo \"%s a$a note $i\" >&2\n", id)
		if s.Every > 0 {
			fmt.Fprintf(&b, "sleep %.3f\n", s.Every.Seconds())
		}
		b.WriteString("done\n")
	}
	if s.Loud > 0 {
		fmt.Fprintf(&b, "seq 1 %d\n", s.Loud)
	}
	if s.Sleep > 0 {
		fmt.Fprintf(&b, "sleep %.3f\n", s.Sleep.Seconds())
	}
	if s.First != 0 {
		fmt.Fprintf(&b, "[ $a -ne 1 ] || exit %d\n", s.First)
	}
	fmt.Fprintf(&b, "exit %d\n", s.Exit)
	return []string{"bash", "-c", b.String()}
}

// Stdout is what an attempt writes if it comes to its end.
func (s Script) Stdout(id string, attempt int) []byte {
	var b bytes.Buffer
	for i := 1; i <= s.Lines; i++ {
		fmt.Fprintf(&b, "%s a%d line %d\n", id, attempt, i)
	}
	for i := 1; i <= s.Loud; i++ {
		fmt.Fprintf(&b, "%d\n", i)
	}
	return b.Bytes()
}

// Stderr is what an attempt writes there if it comes to its end.
func (s Script) Stderr(id string, attempt int) []byte {
	var b bytes.Buffer
	for i := 5; i <= s.Lines; i += 5 {
		fmt.Fprintf(&b, "%s a%d note %d\n", id, attempt, i)
	}
	return b.Bytes()
}

// Code is the exit status of an attempt.
func (s Script) Code(attempt int) int {
	if s.First != 0 && attempt == 1 {
		return s.First
	}
	return s.Exit
}

// numbers is how many numbers, from 1 on, one to a line, make up so many bytes.
func numbers(size int) int {
	n, width, from := 0, 1, 1
	for size > 0 {
		count := 9 * from
		fit := min(count, (size+width)/(width+1))
		n, size = n+fit, size-fit*(width+1)
		if fit < count {
			break
		}
		from, width = from*10, width+1
	}
	return n
}
