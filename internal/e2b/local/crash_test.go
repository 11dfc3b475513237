package local

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crashEnv makes this test binary a server of the level it names.
const crashEnv = "SANDJET_TEST_SERVER"

// TestServerOfItsOwn is no test by itself: TestNothingOutlivesAKilledServer
// starts it as a process.
func TestServerOfItsOwn(t *testing.T) {
	level := os.Getenv(crashEnv)
	if level == "" {
		t.Skip("only as a process of another test")
	}
	// With a group of its own a sandbox is also ended by the next server on the machine, which may come at once.
	srv, err := Start(t.Context(), Config{Isolation: Isolation(level), DataDir: os.Getenv("DATA"), APIKey: "k", noGroups: Isolation(level) == None})
	require.NoError(t, err)
	c := newClient(t, srv)
	b := c.create("")
	st, _ := b.begin(sh("setsid sleep " + os.Getenv("MARK") + " & echo ready; exec sleep 0" + os.Getenv("MARK")))
	require.True(t, st.Receive())
	asleep := c.create("")
	st, _ = asleep.begin(sh("echo ready; exec sleep 0" + os.Getenv("MARK")))
	require.True(t, st.Receive())
	require.Equal(t, 204, c.call("POST", asleep.on("/pause"), "").status)
	fmt.Println("\nup", b.SandboxID)
	select {} // until killed
}

func TestNothingOutlivesAKilledServer(t *testing.T) {
	t.Parallel()
	for _, level := range levels(t) {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			data, mark := t.TempDir(), fmt.Sprint("100.", time.Now().UnixNano())
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestServerOfItsOwn$", "-test.v", "-test.timeout="+stuck.String())
			cmd.Env = append(os.Environ(), crashEnv+"="+string(level), "DATA="+data, "MARK="+mark)
			out, err := cmd.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, cmd.Start())
			var log []string
			for s := bufio.NewScanner(out); s.Scan(); {
				log = append(log, s.Text())
				if strings.HasPrefix(s.Text(), "up ") {
					break
				}
			}
			require.NotEmpty(t, withCommand(mark), "%s", strings.Join(log, "\n"))
			require.NotEmpty(t, withCommand("0"+mark))
			images, err := filepath.Glob(filepath.Join(data, "*", imageFile))
			require.NoError(t, err)
			require.Len(t, loops(t, data), len(images))
			require.NoError(t, cmd.Process.Kill())
			_ = cmd.Wait()
			none := func() bool { return len(withCommand(mark)) == 0 }
			if level != None { // there nobody ends the descendants before the next server does
				require.Eventually(t, none, patience, 5*time.Millisecond)
			}
			// Commands end with the server, whatever they leave behind.
			require.Eventually(t, func() bool { return len(withCommand("0"+mark)) == 0 }, patience, 5*time.Millisecond)
			require.Eventually(t, func() bool { return len(loops(t, data)) == 0 }, patience, 5*time.Millisecond, "nor any of its disks")
			srv := start(t, Config{Isolation: level, DataDir: data})
			require.Len(t, srv.Sandboxes(), 2)
			require.Eventually(t, none, patience, 5*time.Millisecond)
		})
	}
}
