package store

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// The cost of a job in the view beside plain SETs, all through the same
// pipeline with 256 callers: only the ratio means something.

func BenchmarkSet(b *testing.B) {
	callers(b, func(s *Store, n int64) error {
		return s.flush.do1(b.Context(), plain(b.Context(), "set", s.keys.record(name(n)), "x"))
	})
}

func BenchmarkEnterLeave(b *testing.B) {
	callers(b, func(s *Store, n int64) error {
		e := Entry{Session: name(n), Job: "j", Origin: uint64(n), Exclusive: true, Holder: "worker/1"}
		if _, err := s.Enter(b.Context(), e, 30*time.Second); err != nil {
			return err
		}
		_, err := s.Leave(b.Context(), e, 5*time.Minute)
		return err
	})
}

func BenchmarkEnter(b *testing.B) {
	callers(b, func(s *Store, n int64) error {
		_, err := s.Enter(b.Context(), Entry{Session: name(n), Job: "j", Origin: uint64(n), Exclusive: true, Holder: "worker/1"}, 30*time.Second)
		return err
	})
}

func BenchmarkPutJob(b *testing.B) {
	callers(b, func(s *Store, n int64) error {
		return s.PutJob(b.Context(), JobView{Session: name(n), Job: "j", Seq: 1, Origin: uint64(n), Kind: "task.run", State: "started", Worker: "w", Attempt: 1})
	})
}

// BenchmarkRenew is the beat: one call with the entries of many jobs.
func BenchmarkRenew(b *testing.B) {
	s := open(b, sharedURL(b, onServer))
	const jobs = 1000
	entries := make([]Entry, jobs)
	for i := range entries {
		entries[i] = Entry{Session: name(int64(i)), Job: "j", Origin: uint64(i), Exclusive: true, Holder: "worker/1", Running: true}
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Renew(b.Context(), entries, 30*time.Second); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*jobs), "ns/job")
}

// BenchmarkAlone is one caller: nothing to share a flush with.
func BenchmarkAlone(b *testing.B) {
	s := open(b, sharedURL(b, onServer))
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		e := Entry{Session: name(int64(i)), Job: "j", Origin: 1, Exclusive: true}
		if _, err := s.Enter(b.Context(), e, 30*time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

func name(n int64) string { return "s" + strconv.FormatInt(n%100_000, 10) }

func callers(b *testing.B, do func(s *Store, n int64) error) {
	s := open(b, sharedURL(b, onServer))
	sp := &counter{}
	s.client.AddHook(sp)
	var n atomic.Int64
	b.SetParallelism(128) // times GOMAXPROCS: about 256 callers on two cores
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := do(s, n.Add(1)); err != nil {
				b.Error(fmt.Errorf("call: %w", err))
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/float64(max(sp.flushes.Load(), 1)), "calls/flush")
}
