package spool

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed runner.sh
var runnerSource string

//go:embed follow.sh
var followSource string

//go:embed stop.sh
var stopSource string

//go:embed clean.sh
var cleanSource string

//go:embed live.sh
var liveSource string

//go:embed why.sh
var whySource string

//go:embed keep.sh
var keepSource string

// The scripts go over the wire with every call, so their comments stay here.
var (
	runnerScript = strip(runnerSource)
	followScript = strip(followSource)
	stopScript   = strip(stopSource)
	cleanScript  = strip(cleanSource)
	liveScript   = strip(liveSource)
	keepScript   = strip(keepSource)
	whyScript    = strip(whySource)
)

var commentLine = regexp.MustCompile(`(?m)^\s*#.*\n`)

// strip removes the lines that hold only a comment. The scripts have no
// here-documents, so no such line is data.
func strip(script string) string {
	return strings.TrimSpace(commentLine.ReplaceAllString(script, "")) + "\n"
}
