// Package bench measures the whole worker beside two plain programs on the same
// servers in the same run, and prints ratios:
//
//   - S1 consumes with JetStream and acks, nothing else.
//   - S2 is the straight line: decode, one Redis round trip, two events stored,
//     ack, in 256 goroutines.
//
// The worker is the real one with every guarantee on. NATS, Redis and a
// sandbox server that lives in memory run as processes of their own, so that
// this process's CPU and allocations are those of the program that is measured.
//
// Absolute figures say more about the machine than about the worker. What counts
// is the ratio between rows of one run; rounds are interleaved and medians
// taken, because neighbours on the machine come and go.
//
// BenchmarkSandboxes measures the sandbox server, and that through our client,
// beside a bare bubblewrap.
//
//	make bench
//	make bench PKG=./internal/bench BENCH=Sandboxes BENCHTIME=1x
//	go test -run '^$' -bench . -benchtime 1x -timeout 3m ./internal/bench
//	go test -run '^$' -bench Worker/resume -cpuprofile cpu.out ./internal/bench
package bench
