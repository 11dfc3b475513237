// Command campaign runs a seeded workload under seeded faults and says whether
// every promise was kept. See make chaos and make chaos-long.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/sandjet/sandjet/internal/chaos"
	"github.com/sandjet/sandjet/internal/chaos/plan"
	"github.com/sandjet/sandjet/internal/chaos/rig"
)

func main() {
	if rig.PlayRole() {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ok, err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "campaign:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context) (ok bool, err error) {
	var o chaos.Options
	var kinds string
	var controls string
	var rounds, abreast int
	flag.Uint64Var(&o.Plan.Seed, "seed", 1, "the same seed makes the same plan")
	flag.IntVar(&o.Plan.Jobs, "jobs", 250, "how many jobs")
	flag.IntVar(&o.Plan.Faults, "faults", 30, "how many faults")
	flag.IntVar(&o.Plan.Loud, "loud", 10<<20, "bytes that a loud command writes")
	flag.DurationVar(&o.Plan.AckWait, "ackwait", 2*time.Second, "after how long a silent worker's jobs go to another")
	flag.StringVar(&kinds, "kinds", "", "only these kinds or classes of fault, with commas between: "+strings.Join(plan.Kinds(), " "))
	flag.IntVar(&o.Nodes, "nodes", 3, "NATS servers")
	flag.IntVar(&o.Workers, "workers", 3, "workers")
	flag.IntVar(&o.Window, "window", 40, "jobs under way at a time")
	flag.StringVar(&o.Off, "off", "", "go without this mechanism")
	flag.StringVar(&o.Dir, "dir", "", "where data and logs go, instead of a temporary directory")
	flag.BoolVar(&o.Keep, "keep", false, "leave data and logs there")
	flag.BoolVar(&o.Quiet, "quiet", false, "say nothing before the report")
	flag.StringVar(&controls, "controls", "", "also: then run the negative controls, each of which must be noticed; only: them alone; or names of some, with commas between, alone")
	flag.IntVar(&rounds, "rounds", 1, "share jobs and faults out to so many campaigns, each on a rig of its own, with seeds from -seed on")
	flag.IntVar(&abreast, "abreast", 2, "rounds at a time")
	flag.StringVar(&o.Binary, "worker", "", "the worker, built with the tag faultpoints, instead of building one")
	flag.Parse()
	if kinds != "" {
		o.Plan.Kinds = strings.Split(kinds, ",")
	}
	o.Out = os.Stdout
	dir, err := os.MkdirTemp("", "sandjet-chaos-bin-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	if o.Binary == "" {
		if o.Binary, err = rig.Build(dir); err != nil {
			return false, err
		}
	}
	switch controls {
	case "", "also":
	case "only":
		return chaos.Controls(ctx, o, nil, os.Stdout)
	default:
		return chaos.Controls(ctx, o, strings.Split(controls, ","), os.Stdout)
	}
	reports, err := chaos.Rounds(ctx, o, rounds, abreast)
	if err != nil {
		return false, err
	}
	reports.Print(os.Stdout)
	if controls == "" {
		return reports.Passed(), nil
	}
	noticed, err := chaos.Controls(ctx, o, nil, os.Stdout)
	return noticed && reports.Passed(), err
}
