// Command soak runs a steady load with mild faults for a while, and says whether
// what the workers and the streams hold stays flat. See make soak.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/chaos"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

func main() {
	if rig.PlayRole() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var o chaos.SoakOptions
	minutes := flag.Float64("minutes", 30, "how long")
	flag.Uint64Var(&o.Seed, "seed", 1, "the same seed makes the same load")
	flag.DurationVar(&o.Every, "every", 10*time.Second, "how often to look")
	flag.Parse()
	o.For, o.Out = time.Duration(*minutes*float64(time.Minute)), os.Stdout
	flat, err := chaos.Soak(ctx, o)
	stop()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(2)
	case !flat:
		os.Exit(1)
	}
}
