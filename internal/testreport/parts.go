package main

import (
	"fmt"
	"io"
)

// A part is a real program that tests run against when it is there.
type part struct {
	program string
	without string // what its absence leaves untested
}

var parts = []part{
	{"redis-server", "the store runs on the embedded Redis only"},
	{"node", "E2B's official SDK, a mock of its API and the AsyncAPI parser do not run"},
	{"npm", "what node needs cannot be installed"},
	{"bwrap", "the strongest isolation of the local sandbox is not exercised"},
	{"busybox", "the in-sandbox scripts run under this machine's sh only"},
}

// missingParts returns the parts that look does not find.
func missingParts(look func(string) (string, error)) []part {
	var out []part
	for _, p := range parts {
		if _, err := look(p.program); err != nil {
			out = append(out, p)
		}
	}
	return out
}

func printMissing(w io.Writer, missing []part) {
	if len(missing) == 0 {
		fmt.Fprintln(w, "real parts: all here")
		return
	}
	fmt.Fprintln(w, "real parts missing on this machine:")
	for _, p := range missing {
		fmt.Fprintf(w, "  %-13s %s\n", p.program, p.without)
	}
}
