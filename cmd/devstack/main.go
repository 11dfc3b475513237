// Command devstack is everything Sandjet needs, in one process on loopback:
// NATS with JetStream, Redis, an E2B-compatible sandbox server and a worker.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the second one kills: nobody waits for a stop that hangs.
	context.AfterFunc(ctx, stop)
	a := app{stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
	if err := a.command().Run(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "devstack:", err)
		return 1
	}
	return 0
}
