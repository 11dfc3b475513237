package store

import (
	"strconv"
	"time"
)

// fields is the array that a script answers with. Reading past its end or as
// another type gives the zero value: the scripts are ours, their results are
// fixed, and each is covered by a test.
type fields []any

func reply(c command) fields {
	f, _ := c.Val().([]any)
	return f
}

// list is a field that is an array itself.
func (f fields) list(i int) fields {
	if i >= len(f) {
		return nil
	}
	l, _ := f[i].([]any)
	return l
}

func (f fields) text(i int) string {
	if i >= len(f) {
		return ""
	}
	return text(f[i])
}

func (f fields) int(i int) int64 {
	if i >= len(f) {
		return 0
	}
	switch v := f[i].(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseFloat(v, 64) // a score; those of ours are whole and below 2^53
		return int64(n)
	}
	return 0
}

// texts returns what stands from i on.
func (f fields) texts(i int) []string {
	var out []string
	for ; i < len(f); i++ {
		out = append(out, f.text(i))
	}
	return out
}

func text(v any) string { s, _ := v.(string); return s }

// done reports whether a script that answers with 1 or 0 said 1.
func done(c command) bool { n, _ := c.Val().(int64); return n == 1 }

// fromMillis is a score as a time.
func fromMillis(n int64) time.Time { return time.UnixMilli(n).UTC() }
