package local

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"
)

// faultLine is a [Fault] as a file writes it: which calls, and one of the things
// that can happen to them.
type faultLine struct {
	Op      string  `json:"op"`
	Sandbox string  `json:"sandbox"`
	Skip    int     `json:"skip"`
	Count   int     `json:"count"`
	Chance  float64 `json:"chance"`

	Status     int      `json:"status"`
	Message    string   `json:"message"`
	ErrorCode  string   `json:"error_code"`
	RetryAfter fileTime `json:"retry_after"`

	Hang       bool     `json:"hang"`
	Delay      fileTime `json:"delay"`
	CutBytes   *int64   `json:"cut_after_bytes"`
	CutAfter   fileTime `json:"cut_after"`
	LostAnswer bool     `json:"lost_answer"`
	LateEffect fileTime `json:"late_effect"`
	LoseFiles  bool     `json:"lose_files"`
}

// fileTime is a duration written as "1.5s".
type fileTime time.Duration

// UnmarshalJSON reads a Go duration.
func (d *fileTime) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return errors.New(`a duration is written as "1.5s"`)
	}
	v, err := time.ParseDuration(s)
	if err != nil || v < 0 {
		return fmt.Errorf(`%q is no duration such as "1.5s"`, s)
	}
	*d = fileTime(v)
	return nil
}

// LoadFaults reads a script of failures from a file of JSON:
//
//	{"seed": 1, "faults": [
//	  {"op": "create", "count": 2, "status": 429, "retry_after": "2s"},
//	  {"op": "start", "count": -1, "chance": 0.1, "cut_after": "3s"}]}
func LoadFaults(path string) (*Faults, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("faults: %w", err)
	}
	var file struct {
		Seed   uint64            `json:"seed"`
		Faults []json.RawMessage `json:"faults"`
	}
	if err := strictly(b, &file); err != nil {
		return nil, fmt.Errorf("faults: %s: %w", path, err)
	}
	f := SeededFaults(file.Seed)
	for i, raw := range file.Faults {
		ft, err := ParseFault(raw)
		if err != nil {
			return nil, fmt.Errorf("faults: %s: fault %d: %w", path, i, err)
		}
		f.Add(ft)
	}
	return f, nil
}

func strictly(b []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("more than one JSON value")
	}
	return nil
}

// ParseFault reads one fault of a file.
func ParseFault(b []byte) (Fault, error) {
	var l faultLine
	if err := strictly(b, &l); err != nil {
		return Fault{}, err
	}
	if l.Op != "*" && !knownOps()[l.Op] {
		return Fault{}, fmt.Errorf("op %q: want one of %s, or *", l.Op, strings.Join(slices.Sorted(maps.Keys(knownOps())), ", "))
	}
	if l.Chance < 0 || l.Chance > 1 {
		return Fault{}, fmt.Errorf("chance %v: want 0 to 1", l.Chance)
	}
	act, err := l.action()
	return Fault{Op: l.Op, Sandbox: l.Sandbox, Skip: l.Skip, Count: l.Count, Chance: l.Chance, Action: act}, err
}

// action is the one thing that the line wants to happen.
func (l *faultLine) action() (Action, error) {
	var acts []Action
	add := func(wanted bool, a Action) {
		if wanted {
			acts = append(acts, a)
		}
	}
	add(l.Status != 0, Status{Code: l.Status, Message: l.Message, ErrorCode: l.ErrorCode, RetryAfter: time.Duration(l.RetryAfter)})
	add(l.Hang, Hang{})
	add(l.Delay > 0, Delay(l.Delay))
	if l.CutBytes != nil {
		add(true, CutAfter{Bytes: *l.CutBytes})
	}
	add(l.CutAfter > 0, CutAfter{After: time.Duration(l.CutAfter)})
	add(l.LostAnswer, LostAnswer{})
	add(l.LateEffect > 0, LateEffect(l.LateEffect))
	add(l.LoseFiles, LoseFiles{})
	if len(acts) != 1 {
		return nil, fmt.Errorf("%d actions: want one of status, hang, delay, cut_after_bytes, cut_after, lost_answer, late_effect, lose_files", len(acts))
	}
	if l.Status != 0 && (l.Status < 400 || l.Status > 599) {
		return nil, fmt.Errorf("status %d: want 400 to 599", l.Status)
	}
	return acts[0], nil
}

// knownOps are the names that operation gives.
func knownOps() map[string]bool {
	known := map[string]bool{"create": true, "list": true, "kill": true, "health": true, "read": true, "write": true, "snapshot.list": true, "template.delete": true}
	for _, names := range []map[string]string{envdOps, sandboxOps} {
		for _, op := range names {
			known[op] = true
		}
	}
	return known
}
