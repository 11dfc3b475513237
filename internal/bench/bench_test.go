package bench

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
)

// rounds is how often each row is measured. On a machine that is too busy for
// that within patience, the rounds that were must do.
const (
	rounds   = 7
	patience = 90 * time.Second
)

// How much a row works off in one round.
const (
	s1Jobs     = 20_000
	s2Jobs     = 6_000
	resumeJobs = 6_000
	taskJobs   = 2_000
	latencies  = 200
	logBytes   = 16 << 20
)

var chunks = []int{512, 4 << 10, 32 << 10}

// BenchmarkBeside runs all rows in turn, several times over, and prints the
// medians beside each other.
func BenchmarkBeside(b *testing.B) {
	w := newWorld(b)
	p, whole, l := newPlain(w), newWhole(w), newLogs(w)
	// One round to warm up: connections, pools, the sandboxes' handles.
	p.s1(s1Jobs / 10)
	p.s2(s2Jobs / 10)
	whole.run(jobs.SandboxResume, resumeRest, 2*sessionCount)
	whole.run(jobs.TaskRun, taskRest, sessionCount)

	var t table
	begun := time.Now()
	for range rounds {
		if time.Since(begun) > patience {
			break
		}
		t.s1 = append(t.s1, p.s1(s1Jobs))
		t.s2 = append(t.s2, p.s2(s2Jobs))
		t.resume = append(t.resume, whole.run(jobs.SandboxResume, resumeRest, resumeJobs))
		t.task = append(t.task, whole.run(jobs.TaskRun, taskRest, taskJobs))
		t.s1Seen = append(t.s1Seen, p.s1Latency(latencies)...)
		begun, seen := whole.latency(latencies)
		t.begun, t.seen = append(t.begun, begun...), append(t.seen, seen...)
		for i, chunk := range chunks {
			t.alone[i] = append(t.alone[i], l.alone(chunk, logBytes))
			t.stored[i] = append(t.stored[i], l.stored(chunk, logBytes))
		}
	}
	t.print(b, time.Since(begun))
}

// BenchmarkWorker is one kind of job alone, for a profile.
func BenchmarkWorker(b *testing.B) {
	for _, kind := range []struct {
		name string
		kind jobs.Kind
		rest string
	}{{"resume", jobs.SandboxResume, resumeRest}, {"task", jobs.TaskRun, taskRest}} {
		b.Run(kind.name, func(b *testing.B) {
			w := newWhole(newWorld(b))
			w.run(kind.kind, kind.rest, sessionCount)
			b.ResetTimer()
			c := w.run(kind.kind, kind.rest, max(b.N, 100))
			b.ReportMetric(c.allocsEach(), "allocs/job")
			b.ReportMetric(c.cpuEach(), "cpu-us/job")
		})
	}
}

// table is what all rounds brought.
type table struct {
	s1, s2, resume, task []cost
	s1Seen, begun, seen  []time.Duration
	alone, stored        [3][]stream
}

func (t *table) print(b *testing.B, took time.Duration) {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	line("\n%d rounds in turn, medians; %d jobs at a time; %s.", len(t.s2), slots, took.Round(time.Second))
	line("\nno-op jobs\tjobs/s\t× S2\tCPU µs/job\t× S2\tallocs/job\tNATS CPU µs/job\t")
	base := t.s2
	for _, row := range []struct {
		name  string
		costs []cost
	}{
		{"S1: consume, ack", t.s1},
		{"S2: straight line", t.s2},
		{"worker: sandbox.resume", t.resume},
		{"worker: task.run", t.task},
	} {
		line("%s\t%.0f\t%.2f\t%.1f\t%.2f\t%.1f\t%.1f\t", row.name,
			median(row.costs, cost.rate), ratio(row.costs, base, cost.rate),
			median(row.costs, cost.cpuEach), ratio(row.costs, base, cost.cpuEach),
			median(row.costs, cost.allocsEach), median(row.costs, cost.serverEach))
	}
	line("\none job at a time\tp50 µs\t× S1\tp99 µs\t")
	for _, row := range []struct {
		name string
		seen []time.Duration
	}{
		{"S1: publish → handler", t.s1Seen},
		{"worker: publish → work begins", t.begun},
		{"worker: publish → started seen", t.seen},
	} {
		p50 := quantile(row.seen, .5)
		line("%s\t%d\t%.2f\t%d\t", row.name, p50.Microseconds(),
			float64(p50)/float64(quantile(t.s1Seen, .5)), quantile(row.seen, .99).Microseconds())
	}
	line("\noutput of a command\tMB/s\t× alone\tCPU ms/MB\t")
	for i, chunk := range chunks {
		line("%d B chunks, read alone\t%.0f\t\t%.2f\t", chunk, median(t.alone[i], stream.rate), median(t.alone[i], stream.cpuPer))
		line("%d B chunks, into EVENTS\t%.0f\t%.2f\t%.2f\t", chunk, median(t.stored[i], stream.rate),
			ratio(t.stored[i], t.alone[i], stream.rate), median(t.stored[i], stream.cpuPer))
	}
	line("")
	if err := out.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(ratio(t.resume, base, cost.rate), "resume/S2")
	b.ReportMetric(ratio(t.resume, base, cost.cpuEach), "resume-cpu/S2")
	b.ReportMetric(median(t.resume, cost.allocsEach), "resume-allocs")
}

func median[T any](rows []T, of func(T) float64) float64 {
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = of(r)
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// ratio is the median of the ratios of each round: what disturbed a round
// disturbed its neighbours too.
func ratio[T any](rows, base []T, of func(T) float64) float64 {
	values := make([]float64, len(rows))
	for i, r := range rows {
		values[i] = of(r) / of(base[i])
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func quantile(all []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[int(q*float64(len(sorted)-1))]
}
