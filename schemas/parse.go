package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parse reads doc as exactly one JSON value, numbers as json.Number.
func parse(doc []byte) (any, error) {
	if at := invalidUTF8(doc); at >= 0 {
		return nil, malformed("not UTF-8: " + position(doc, at) + " holds a byte that no UTF-8 text has")
	}
	if bytes.HasPrefix(doc, []byte("\xef\xbb\xbf")) {
		return nil, malformed("begins with a byte order mark: want plain JSON")
	}
	if len(bytes.TrimLeft(doc, " \t\r\n")) == 0 {
		return nil, malformed("empty: want a JSON object")
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, syntax(doc, err)
	}
	end := int(dec.InputOffset())
	if rest := bytes.TrimLeft(doc[end:], " \t\r\n"); len(rest) > 0 {
		return nil, malformed("data after the end of the JSON value at " + position(doc, len(doc)-len(rest)))
	}
	if ptr, ok := hugeNumber(v, nil); ok {
		return nil, &Error{Pointer: pointer(ptr), Reason: "number out of range"}
	}
	return v, nil
}

func malformed(reason string) *Error { return &Error{Reason: reason, Malformed: true} }

func syntax(doc []byte, err error) *Error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return malformed("malformed JSON: it ends too early, at " + position(doc, len(doc)))
	}
	var se *json.SyntaxError
	if errors.As(err, &se) {
		if strings.HasSuffix(se.Error(), "exceeded max depth") {
			return malformed("nested too deeply, at " + position(doc, int(se.Offset)-1))
		}
		return malformed(fmt.Sprintf("malformed JSON at %s: %s", position(doc, int(se.Offset)-1), se))
	}
	return malformed("malformed JSON: " + err.Error())
}

// position names a byte by line and column, both from 1; columns are bytes.
func position(doc []byte, at int) string {
	at = max(0, min(at, len(doc)))
	line := 1 + bytes.Count(doc[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(doc[:at], '\n')
	return fmt.Sprintf("line %d column %d", line, column)
}

func invalidUTF8(doc []byte) int {
	if utf8.Valid(doc) {
		return -1
	}
	for i := 0; i < len(doc); {
		r, n := utf8.DecodeRune(doc[i:])
		if r == utf8.RuneError && n <= 1 {
			return i
		}
		i += n
	}
	return -1
}

// hugeNumber finds a number that no field of ours can hold. The library
// computes with exact fractions, which must not be asked for 1e1000000.
func hugeNumber(v any, at []string) ([]string, bool) {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); len(v) > 64 || err != nil || math.Abs(f) > 1e300 || tiny(string(v)) {
			return at, true
		}
	case map[string]any:
		for k, item := range v {
			if ptr, ok := hugeNumber(item, append(at, k)); ok {
				return ptr, true
			}
		}
	case []any:
		for i, item := range v {
			if ptr, ok := hugeNumber(item, append(at, strconv.Itoa(i))); ok {
				return ptr, true
			}
		}
	}
	return nil, false
}

// tiny reports whether a number has a large negative exponent.
func tiny(s string) bool {
	_, exp, ok := strings.Cut(strings.ToLower(s), "e")
	if !ok {
		return false
	}
	n, err := strconv.Atoi(exp)
	return err != nil || n < -300
}
