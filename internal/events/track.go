package events

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
)

// track makes one output of a job contiguous and remembers what went by.
type track struct {
	kind  Kind
	from  int64
	next  int64 // offset of the first byte to come
	known bool  // false until the first event says where we are
	bytes int64 // yielded
	hash  hash.Hash
}

func newTrack(kind Kind, from int64, fromSeq uint64) *track {
	return &track{kind: kind, from: from, next: from, known: fromSeq <= 1 || from > 0, hash: sha256.New()}
}

// emit yields the part of e that is new. It reports whether to go on.
func (t *track) emit(e Event, yield func(Event, error) bool) bool {
	if !t.known {
		t.next, t.from, t.known = e.Offset, e.Offset, true
	}
	if e.Offset > t.next {
		gap := &GapError{Job: e.Job, Kind: e.Kind, From: t.next, To: e.Offset}
		t.next = e.Offset
		if !yield(Event{}, gap) {
			return false
		}
	}
	if e.End() <= t.next {
		return true
	}
	e.Data = e.Data[t.next-e.Offset:]
	e.Offset = t.next
	t.next = e.End()
	t.bytes += int64(len(e.Data))
	t.hash.Write(e.Data)
	return yield(e, nil)
}

// check compares what went by with what the outcome says.
func (t *track) check(j Job, bytes int64, sum string) error {
	v := &VerifyError{Job: j, Kind: t.kind, Bytes: t.from + t.bytes, SHA256: hex.EncodeToString(t.hash.Sum(nil)), WantBytes: bytes, WantSHA: sum}
	if t.from > bytes && t.bytes == 0 {
		return nil // asked for bytes that never were
	}
	if v.Bytes != bytes || sum != "" && t.from == 0 && v.SHA256 != sum {
		return v
	}
	return nil
}
