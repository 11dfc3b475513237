package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/e2b/local"
)

const boxKey = "e2b_bench"

// sandboxesMain is the local sandbox server.
func sandboxesMain(dir string) error {
	srv, err := local.Start(context.Background(), local.Config{DataDir: dir, APIKey: boxKey, Isolation: local.Strong})
	if err != nil {
		return err
	}
	defer func() { _ = srv.Close() }()
	return answer(srv.URL(), nil)
}

// Each row of BenchmarkSandboxes is taken this often; idle sandboxes are counted
// by so many.
const (
	boxRounds = 40
	boxIdle   = 50
)

// BenchmarkSandboxes measures calls to the sandbox server beside the same done
// with a bubblewrap of its own each time, in turn, and prints medians.
func BenchmarkSandboxes(b *testing.B) {
	if _, err := exec.LookPath("bwrap"); err != nil {
		b.Skip("bwrap is not installed")
	}
	server := startChild(b, "sandboxes")
	c, err := e2b.New(e2b.Config{APIKey: func() (string, error) { return boxKey, nil }, APIURL: server.addr, SandboxURL: server.addr})
	require.NoError(b, err)
	b.Cleanup(c.Close)
	ctx := b.Context()
	create := func() *e2b.Sandbox {
		sb, err := c.Create(ctx, e2b.CreateRequest{TemplateID: "base", Timeout: 3600})
		require.NoError(b, err)
		return sb
	}
	box := c.Open(create().Ref())
	home := b.TempDir()
	small, big := bytes.Repeat([]byte("x"), 4<<10), bytes.Repeat([]byte("x"), 16<<20)
	write := func(name string, data []byte) func() {
		return func() { require.NoError(b, box.Write(ctx, name, bytes.NewReader(data), e2b.WriteOptions{})) }
	}
	read := func(name string, data []byte) func() {
		return func() {
			rc, _, err := box.Open(ctx, name, 0)
			require.NoError(b, err)
			n, err := io.Copy(io.Discard, rc)
			require.NoError(b, err)
			require.NoError(b, rc.Close())
			require.EqualValues(b, len(data), n)
		}
	}
	into := func(name string, data []byte) func() {
		return func() { bare(b, home, bytes.NewReader(data), "/bin/sh", "-c", "cat >"+name) }
	}
	from := func(name string) func() { return func() { bare(b, home, nil, "/bin/cat", name) } }
	var last string
	rows := []struct {
		name        string
		ours, plain func()
		o, p        []time.Duration
	}{
		{name: "create", ours: func() { last = create().SandboxID }, plain: func() { bare(b, home, nil, "/bin/true") }},
		{name: "kill", ours: func() { _, err := c.Kill(ctx, last); require.NoError(b, err) }},
		{name: "run true", ours: func() { require.NoError(b, box.Command("true").Run(ctx)) }, plain: func() { bare(b, home, nil, "/bin/true") }},
		{name: "write 4 KiB", ours: write("small", small), plain: into("small", small)},
		{name: "read 4 KiB", ours: read("small", small), plain: from("small")},
		{name: "write 16 MiB", ours: write("big", big), plain: into("big", big)},
		{name: "read 16 MiB", ours: read("big", big), plain: from("big")},
	}
	timed := func(do func()) time.Duration {
		began := time.Now()
		do()
		return time.Since(began)
	}
	for range boxRounds {
		for i := range rows {
			r := &rows[i]
			r.o = append(r.o, timed(r.ours))
			if r.plain != nil {
				r.p = append(r.p, timed(r.plain))
			}
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(out, "\n%d rounds in turn\tp50 ms\tp99 ms\tbwrap p50 ms\t× bwrap\t\n", boxRounds)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
	for _, r := range rows {
		fmt.Fprintf(out, "%s\t%.1f\t%.1f\t", r.name, ms(quantile(r.o, .5)), ms(quantile(r.o, .99)))
		if r.p == nil {
			fmt.Fprint(out, "\t\t\n")
			continue
		}
		fmt.Fprintf(out, "%.1f\t%.2f\t\n", ms(quantile(r.p, .5)), ratio(r.o, r.p, time.Duration.Seconds))
	}
	plain := idlePlain(b, home) // before ours: the pages of bwrap are shared by all
	ours := idleOurs(b, server.pid, create)
	fmt.Fprintf(out, "an idle sandbox, MiB (PSS)\t%.2f\t\t%.2f\t%.2f\t\n", ours, plain, ours/plain)
	require.NoError(b, out.Flush())
	b.ReportMetric(ms(quantile(rows[0].o, .5)), "create-ms")
	b.ReportMetric(ours, "idle-MiB")
}

// bwrapArgs are a sandbox like the server's: own root, read-only system.
func bwrapArgs(home string) []string {
	args := []string{"--unshare-all", "--hostname", "e2b.local", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", home, "/home/user", "--chdir", "/home/user"}
	for _, d := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"} {
		if to, err := os.Readlink(d); err == nil {
			args = append(args, "--symlink", to, d)
		} else {
			args = append(args, "--ro-bind-try", d, d)
		}
	}
	return append(args, "--")
}

// bare runs a command in a bubblewrap of its own.
func bare(b *testing.B, home string, in io.Reader, argv ...string) {
	cmd := exec.Command("bwrap", append(bwrapArgs(home), argv...)...)
	cmd.Stdin = in
	out, err := cmd.CombinedOutput()
	if err != nil {
		require.NoError(b, err, "%.300s", out)
	}
}

// idleOurs is what one more idle sandbox takes, of the server and its processes.
func idleOurs(b *testing.B, server int, create func() *e2b.Sandbox) float64 {
	before := pss(b, server)
	for range boxIdle {
		create()
	}
	return (pss(b, server) - before) / boxIdle
}

// idlePlain is what a bare bubblewrap takes whose command does nothing.
func idlePlain(b *testing.B, home string) float64 {
	before := pss(b, os.Getpid())
	var all []*exec.Cmd
	var ins []io.Closer
	for range boxIdle {
		cmd := exec.Command("bwrap", append(bwrapArgs(home), "/bin/sh", "-c", "echo up; read -r _")...)
		in, err := cmd.StdinPipe()
		require.NoError(b, err)
		out, err := cmd.StdoutPipe()
		require.NoError(b, err)
		require.NoError(b, cmd.Start())
		_, err = io.ReadFull(out, make([]byte, 3))
		require.NoError(b, err)
		all, ins = append(all, cmd), append(ins, in)
	}
	took := (pss(b, os.Getpid()) - before) / boxIdle
	for i, cmd := range all {
		_ = ins[i].Close()
		_ = cmd.Wait()
	}
	return took
}

// pss is the memory of a process and all below it, in MiB; what several share
// counts once.
func pss(b *testing.B, pid int) (mib float64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err == nil {
		_, rest, _ := strings.Cut(string(text), "\nPss:")
		kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
		require.NoError(b, err)
		mib = kib / 1024
	}
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		text, _ := os.ReadFile(f)
		for _, word := range strings.Fields(string(text)) {
			child, _ := strconv.Atoi(word)
			mib += pss(b, child)
		}
	}
	return mib
}
