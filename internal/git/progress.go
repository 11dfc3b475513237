package git

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// Progress is what git says of an operation under way.
type Progress struct {
	Phase   string // git's words: "Receiving objects", "Resolving deltas", …
	Remote  bool   // the other side does it
	Percent int    // 0 to 100; -1 if the total is not known
	Objects int64
	Total   int64 // 0 if not known
	Bytes   int64 // moved so far; 0 if git does not say
	Rate    int64 // bytes a second; 0 if git does not say
	Done    bool  // the phase is over
}

var (
	progressRegexp = regexp.MustCompile(`^(remote: )?([A-Z][A-Za-z ]{2,60}):\s+(?:(\d{1,3})% \((\d+)/(\d+)\)|(\d+))(.*)$`)
	sizeRegexp     = regexp.MustCompile(`, ([0-9.]+) (bytes|KiB|MiB|GiB)`)
	rateRegexp     = regexp.MustCompile(`\| ([0-9.]+) (bytes|KiB|MiB|GiB)/s`)
)

// ParseProgress reads one line of git's progress; ok is false if it is none.
func ParseProgress(line string) (Progress, bool) {
	m := progressRegexp.FindStringSubmatch(strings.TrimRight(strings.TrimSuffix(line, "\x1b[K"), " "))
	if m == nil {
		return Progress{}, false
	}
	p := Progress{Phase: m[2], Remote: m[1] != "", Percent: -1, Done: strings.Contains(m[7], ", done")}
	if m[3] != "" {
		p.Percent = min(100, int(number(m[3])))
		p.Objects, p.Total = number(m[4]), number(m[5])
	} else {
		p.Objects = number(m[6])
	}
	p.Bytes, p.Rate = size(sizeRegexp, m[7]), size(rateRegexp, m[7])
	return p, true
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64) // a number too long for us is no number
	return n
}

func size(re *regexp.Regexp, s string) int64 {
	m := re.FindStringSubmatch(s)
	if m == nil {
		return 0
	}
	f, _ := strconv.ParseFloat(m[1], 64)
	unit := map[string]float64{"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[m[2]]
	return int64(f * unit)
}

const (
	maxLine = 4096
	maxText = 64 << 10
)

// progressWriter takes git's standard error: lines of progress go to tell, the
// rest is kept, as far as it is not too long.
type progressWriter struct {
	mu   sync.Mutex
	tell func(Progress)
	line []byte
	text bytes.Buffer
}

var _ io.Writer = (*progressWriter)(nil)

func (w *progressWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range p {
		if c == '\r' || c == '\n' {
			w.flush()
			continue
		}
		if len(w.line) < maxLine {
			w.line = append(w.line, c)
		}
	}
	return len(p), nil
}

func (w *progressWriter) flush() {
	if len(w.line) == 0 {
		return
	}
	line := string(w.line)
	w.line = w.line[:0]
	if p, ok := ParseProgress(line); ok {
		if w.tell != nil {
			w.tell(p)
		}
		return
	}
	if w.text.Len()+len(line) < maxText {
		w.text.WriteString(line + "\n")
	}
}

// String is all that was no progress.
func (w *progressWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	return w.text.String()
}
