package worker

import (
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sandjet/sandjet/internal/natsx"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// env reads variables and collects what is wrong with them. A variable that is
// empty counts as not set.
type env struct {
	get  func(string) string
	errs []error
}

func (e *env) fail(name, what string) { e.errs = append(e.errs, fmt.Errorf("%s %s", name, what)) }

func (e *env) malformed(name, want string) { e.fail(name, "is malformed: want "+want) }

// read sets to what parse makes of a variable that is set.
func read[T any](e *env, name string, to *T, want string, parse func(string) (T, bool)) {
	s := e.get(name)
	if s == "" {
		return
	}
	v, ok := parse(s)
	if !ok {
		e.malformed(name, want)
		return
	}
	*to = v
}

func (e *env) text(name string, to *string) {
	read(e, name, to, "text", func(s string) (string, bool) { return s, true })
}

func (e *env) id(name string, to *string) {
	read(e, name, to, "1 to 64 of A-Z a-z 0-9 _ -", func(s string) (string, bool) { return s, wire.ValidID(s) })
}

func (e *env) namespace(name string, to *wire.Namespace) {
	read(e, name, to, "1 to 64 of A-Z a-z 0-9 _ -", func(s string) (wire.Namespace, bool) {
		ns, err := wire.ParseNamespace(s)
		return ns, err == nil
	})
}

func (e *env) choice(name string, to *string, of ...string) {
	read(e, name, to, strings.Join(of, " or "), func(s string) (string, bool) { return s, slices.Contains(of, s) })
}

func (e *env) level(name string, to *slog.Level) {
	read(e, name, to, "debug, info, warn or error", func(s string) (l slog.Level, ok bool) {
		err := l.UnmarshalText([]byte(s))
		return l, err == nil
	})
}

func (e *env) integer(name string, to *int, lo, hi int) {
	read(e, name, to, fmt.Sprintf("a whole number from %d to %d", lo, hi), func(s string) (int, bool) {
		n, err := strconv.Atoi(s)
		return n, err == nil && n >= lo && n <= hi
	})
}

func (e *env) rate(name string, to *float64) {
	read(e, name, to, "a number a second, 0 for no limit", func(s string) (float64, bool) {
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil && !math.IsNaN(f) && f >= 0 && f <= 1e6
	})
}

func (e *env) boolean(name string, to *bool) {
	read(e, name, to, "true or false", func(s string) (bool, bool) {
		b, err := strconv.ParseBool(s)
		return b, err == nil
	})
}

func (e *env) duration(name string, to *time.Duration, lo, hi time.Duration) {
	read(e, name, to, fmt.Sprintf("a duration from %s to %s, such as 90s or 5m", lo, hi), func(s string) (time.Duration, bool) {
		d, err := time.ParseDuration(s)
		return d, err == nil && d >= lo && d <= hi
	})
}

var units = []struct {
	suffix string
	factor int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40}, {"B", 1}, {"", 1}}

func (e *env) bytes(name string, to *int64) {
	read(e, name, to, "a size such as 64MiB or 10GiB", func(s string) (int64, bool) {
		for _, u := range units {
			if digits, ok := strings.CutSuffix(s, u.suffix); ok {
				n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
				return n * u.factor, err == nil && n > 0 && n <= (1<<60)/u.factor
			}
		}
		return 0, false
	})
}

func (e *env) address(name string, to *string) {
	read(e, name, to, "host:port, or off", func(s string) (string, bool) {
		_, port, err := net.SplitHostPort(s)
		_, portErr := strconv.ParseUint(port, 10, 16)
		return s, s == "off" || err == nil && portErr == nil
	})
}

var hostRegexp = regexp.MustCompile(`^[A-Za-z0-9.-]+(:[0-9]+)?$`)

func (e *env) host(name string) (host string) {
	read(e, name, &host, "a host name such as e2b.app", func(s string) (string, bool) { return s, hostRegexp.MatchString(s) })
	return host
}

func (e *env) url(name string) (out string) {
	read(e, name, &out, "http://host:port or https://host", func(s string) (string, bool) {
		u, err := url.Parse(s)
		return strings.TrimRight(s, "/"), err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	})
	return out
}

func (e *env) redis(name string) string {
	s := e.get(name)
	if s == "" {
		e.fail(name, "is not set: want a URL such as redis://127.0.0.1:6379/0")
		return ""
	}
	if err := store.CheckURL(s); err != nil {
		e.fail(name, "is malformed: "+err.Error())
	}
	return s
}

// nats reads where NATS is and who we are.
func (e *env) nats() natsx.Config {
	c := natsx.Config{
		URL: e.get("NATS_URL"), Context: e.get("NATS_CONTEXT"),
		Creds: e.file("NATS_CREDS"), NKey: e.file("NATS_NKEY"),
		CA: e.file("NATS_CA"), Cert: e.file("NATS_CERT"), Key: e.file("NATS_KEY"),
	}
	switch {
	case c.URL == "" && c.Context == "":
		e.fail("NATS_URL", "is not set: want a URL such as nats://127.0.0.1:4222, or NATS_CONTEXT with a context of the nats CLI")
	case !natsURLs(c.URL):
		e.malformed("NATS_URL", "nats://host:port, tls://, ws:// or wss://; several with commas between them")
	}
	if c.Cert != "" && c.Key == "" {
		e.fail("NATS_KEY", "is not set: want the file with the key of NATS_CERT")
	}
	if c.Key != "" && c.Cert == "" {
		e.fail("NATS_CERT", "is not set: want the file with the certificate of NATS_KEY")
	}
	return c
}

// natsURLs reports whether the client can read a list of servers. It takes a
// bare host for nats://host.
func natsURLs(list string) bool {
	if list == "" {
		return true
	}
	for s := range strings.SplitSeq(list, ",") {
		s = strings.TrimSpace(s)
		if s == "" {
			return false
		}
		if !strings.Contains(s, "://") {
			s = "nats://" + s
		}
		u, err := url.Parse(s)
		if err != nil || u.Hostname() == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return false
		}
	}
	return true
}

// file reads the name of a file that must be readable.
func (e *env) file(name string) string {
	path := e.get(name)
	if path == "" {
		return ""
	}
	if _, err := os.ReadFile(path); err != nil {
		e.fail(name, fmt.Sprintf("cannot be read: %v: want a file", withoutPath(err)))
	}
	return path
}

// key reads a credential from NAME or NAME_FILE.
func (e *env) key(name string) func() (string, error) {
	value, file := strings.TrimSpace(e.get(name)), e.get(name+"_FILE")
	switch {
	case value != "" && file != "":
		e.fail(name, "and "+name+"_FILE are both set: want one of them")
	case value == "" && file == "":
		e.fail(name, "is not set: want the key, or its file in "+name+"_FILE")
	case file != "":
		k := &keyFile{path: file}
		if _, err := k.read(); err != nil {
			e.fail(name+"_FILE", err.Error()+": want a file with the key")
		}
		return k.read
	}
	if !oneWord(value) {
		e.malformed(name, "the key alone")
	}
	return func() (string, error) { return value, nil }
}
