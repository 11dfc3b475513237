package bench

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// child is an outside system in a process of its own. It ends when its stdin
// does, so also when this process is killed.
type child struct {
	b    *testing.B
	addr string
	pid  int
	in   io.WriteCloser
	out  *bufio.Reader
}

func startChild(b *testing.B, role string) *child {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVar+"="+role, "SANDJET_BENCH_DIR="+b.TempDir())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	require.NoError(b, err)
	out, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	c := &child{b: b, pid: cmd.Process.Pid, in: in, out: bufio.NewReader(out)}
	b.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	c.addr = c.line()
	return c
}

// ask sends a line and waits for the answer.
func (c *child) ask(line string) string {
	_, err := io.WriteString(c.in, line+"\n")
	require.NoError(c.b, err)
	return c.line()
}

func (c *child) line() string {
	s, err := c.out.ReadString('\n')
	require.NoError(c.b, err)
	return strings.TrimSpace(s)
}

// cpu is what the child has used so far.
func (c *child) cpu() time.Duration {
	n, err := strconv.ParseInt(c.ask("cpu"), 10, 64)
	require.NoError(c.b, err)
	return time.Duration(n)
}
