package worker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// upload streams an object into the sandbox. It is written under another name
// and renamed, so that nobody sees half a file, whoever dies on the way.
func (h *hold) upload(ctx context.Context) (events.Outcome, error) {
	return h.transfer(ctx, h.uploadOnce)
}

func (h *hold) uploadOnce(ctx context.Context, k known, b *box) (events.Outcome, error) {
	p := h.d.Payload.(*jobs.File)
	obj, err := h.w.artifacts.get(ctx, p.Object)
	if err != nil {
		return events.Outcome{}, objectFault(p.Object, contextCause(ctx, err))
	}
	defer obj.Close()
	info, err := obj.Info()
	if err != nil {
		return events.Outcome{}, objectFault(p.Object, err)
	}
	if int64(info.Size) > h.w.cfg.FileCap {
		return events.Outcome{}, h.tooLarge(int64(info.Size), "/object")
	}
	sum := sha256.New()
	// Each claim writes a file of its own: who was replaced and does not know it yet
	// must not write into what the next one gives its name.
	parts := path.Join(path.Dir(p.Path), "."+path.Base(p.Path)+".sandjet-"+h.d.ID)
	part := fmt.Sprintf("%s-%d", parts, h.claim.Token())
	if err := b.Write(ctx, part, io.TeeReader(obj, sum), e2b.WriteOptions{Size: int64(info.Size)}); err != nil {
		return events.Outcome{}, contextCause(ctx, fmt.Errorf("write %s: %w", p.Path, err))
	}
	if want := objectSum(info.Digest); want != "" && want != hex.EncodeToString(sum.Sum(nil)) {
		return events.Outcome{}, faultf(jobs.ClassTransport, "object %s changed on the way: its digest differs", p.Object)
	}
	if err := place(ctx, b, part, p); err != nil {
		if errors.Is(err, e2b.ErrNotFound) { // the next one has cleared it away
			err = cmp.Or(h.claim.Check(ctx), err)
		}
		return events.Outcome{}, contextCause(ctx, err)
	}
	if h.claim.Record().Previous != 0 {
		h.clear(ctx, b, parts)
	}
	return events.Outcome{
		Class: string(jobs.ClassOK), SandboxID: k.SandboxID, Object: p.Object,
		ObjectBytes: int64(info.Size), ObjectSHA: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// place gives the finished file its mode and its name.
func place(ctx context.Context, b *box, part string, p *jobs.File) error {
	if p.Mode != "" {
		if err := b.Command("chmod", "--", p.Mode, home(part)).Run(ctx); err != nil {
			return fmt.Errorf("chmod %s: %w", p.Path, err)
		}
	}
	if err := b.Rename(ctx, part, p.Path); err != nil {
		return fmt.Errorf("rename to %s: %w", p.Path, err)
	}
	return nil
}

// clear removes what holders before this one have left of the file, as far as that
// can be done, and nothing of those after it.
func (h *hold) clear(ctx context.Context, b *box, parts string) {
	const script = `for f in "$1"-*; do [ "${f##*-}" -ge "$2" ] || rm -f -- "$f"; done 2>/dev/null`
	if err := b.Command("/bin/sh", "-c", script, "sh", home(parts), strconv.FormatUint(h.claim.Token(), 10)).Run(ctx); err != nil {
		h.log.Warn("parts of a file not removed", "err", err)
	}
}

// home makes a relative path explicit; commands start in the home directory.
func home(p string) string {
	if path.IsAbs(p) {
		return p
	}
	return "./" + p
}

// download streams a file out of the sandbox into the object bucket. Put is
// atomic there: the object is the old or the new one.
func (h *hold) download(ctx context.Context) (events.Outcome, error) {
	return h.transfer(ctx, h.downloadOnce)
}

func (h *hold) downloadOnce(ctx context.Context, k known, b *box) (events.Outcome, error) {
	p := h.d.Payload.(*jobs.File)
	file, err := openResumed(ctx, b.Box, p.Path)
	if err != nil {
		return events.Outcome{}, contextCause(ctx, fmt.Errorf("read %s: %w", p.Path, err))
	}
	defer file.Close()
	if file.total > h.w.cfg.FileCap {
		return events.Outcome{}, h.tooLarge(file.total, "/path")
	}
	sum := sha256.New()
	// A bucket that is told to stop leaves its chunks behind; one whose source
	// fails clears them away. So the end of ctx comes with the bytes.
	info, err := h.w.artifacts.put(context.WithoutCancel(ctx), jetstream.ObjectMeta{
		Name:        p.Object,
		Description: fmt.Sprintf("%s of session %s", p.Path, h.d.Session),
	}, file.total, io.TeeReader(file, sum))
	if err != nil {
		return events.Outcome{}, contextCause(ctx, fmt.Errorf("put object %s: %w", p.Object, err))
	}
	return events.Outcome{
		Class: string(jobs.ClassOK), SandboxID: k.SandboxID, Object: p.Object,
		ObjectBytes: int64(info.Size), ObjectSHA: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

func (h *hold) tooLarge(size int64, pointer string) error {
	f := faultf(jobs.ClassInvalid, "%d bytes are more than the %d a file may have (WORKER_FILE_CAP)", size, h.w.cfg.FileCap)
	f.pointer = pointer
	return f
}

func objectFault(name string, err error) error {
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return &fault{class: jobs.ClassNotFound, pointer: "/object", reason: fmt.Sprintf("the bucket has no object %q", name), err: err}
	}
	return fmt.Errorf("get object %s: %w", name, err)
}

// objectSum turns the bucket's digest into hex; it is empty for other forms.
func objectSum(digest string) string {
	b64, ok := strings.CutPrefix(digest, "SHA-256=")
	if !ok {
		return ""
	}
	sum, err := base64.URLEncoding.DecodeString(b64)
	if err != nil {
		return ""
	}
	return hex.EncodeToString(sum)
}
