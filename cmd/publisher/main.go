// Command publisher gives Sandjet its jobs and shows what becomes of them.
//
// It speaks to NATS alone: jobs go in through the stream, output comes back
// from the event log, and what only a worker knows is asked of one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the release build.
var version = ""

func main() { os.Exit(run()) }

func run() int {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	app := &App{
		Env:     os.LookupEnv,
		Stdin:   os.Stdin,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
		Signals: signals,
		Abort:   func() { os.Exit(exitCancelled) },
	}
	return app.Run(context.Background(), os.Args)
}
