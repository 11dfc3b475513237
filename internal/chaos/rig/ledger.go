package rig

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"
)

// Ledger writes down when commands begin and end, by their own word: each
// command's first act is to connect and to name its run, and the connection lasts
// as long as any process of the command.
type Ledger struct {
	l  net.Listener
	wg sync.WaitGroup

	mu   sync.Mutex
	runs []*Entry
}

// Entry is one start of a command.
type Entry struct {
	Run        string // <session>.<generation>.<job>.<attempt>
	Start, End time.Time
}

// newLedger starts a ledger.
func newLedger() (*Ledger, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	d := &Ledger{l: l}
	d.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go d.serve(c)
		}
	})
	return d, nil
}

// Port is where commands find it.
func (d *Ledger) Port() string {
	_, port, _ := net.SplitHostPort(d.l.Addr().String())
	return port
}

func (d *Ledger) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil {
		return
	}
	dir := strings.TrimSuffix(strings.TrimSpace(line), "/")
	e := &Entry{Run: dir[strings.LastIndexByte(dir, '/')+1:], Start: time.Now()}
	d.mu.Lock()
	d.runs = append(d.runs, e)
	d.mu.Unlock()
	if _, err := fmt.Fprintln(c, "ok"); err == nil {
		_, _ = in.ReadByte() // returns when nobody holds the other end any more
	}
	d.mu.Lock()
	e.End = time.Now()
	d.mu.Unlock()
}

// Entries are all starts so far.
func (d *Ledger) Entries() []Entry {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make([]Entry, len(d.runs))
	for i, e := range d.runs {
		out[i] = *e
	}
	return out
}

func (d *Ledger) close() {
	_ = d.l.Close()
	d.wg.Wait()
}
