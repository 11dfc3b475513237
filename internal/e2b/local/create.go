package local

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b"
)

// The time to live of a create without one, by the version of the call.
const (
	timeoutV1 = 15 * time.Second
	timeoutV2 = 300 * time.Second
)

// createRequest is the body of a create, both versions.
type createRequest struct {
	TemplateID      string            `json:"templateID"`
	Timeout         *int              `json:"timeout"`
	AutoPause       bool              `json:"autoPause"`
	AutoPauseMemory *bool             `json:"autoPauseMemory"`
	AutoResume      *e2b.AutoResume   `json:"autoResume"`
	Metadata        map[string]string `json:"metadata"`
	EnvVars         map[string]string `json:"envVars"`
	Secure          bool              `json:"secure"` // v1 only; v2 always is
	AllowInternet   *bool             `json:"allow_internet_access"`
	Network         json.RawMessage   `json:"network"`
	VolumeMounts    []json.RawMessage `json:"volumeMounts"`
	IAM             struct {
		Tokens map[string]json.RawMessage `json:"tokens"`
	} `json:"iam"`
}

// record turns the request into a sandbox, or says what is wrong with it.
func (q *createRequest) record(c Config, v2 bool) (record, error) {
	life := timeoutV1
	if v2 {
		life = timeoutV2
	}
	if q.Timeout != nil {
		life = seconds(*q.Timeout)
	}
	diskOnly := q.AutoPauseMemory != nil && !*q.AutoPauseMemory
	autoResume := q.AutoResume != nil && q.AutoResume.Enabled
	switch {
	case q.TemplateID == "":
		return record{}, failf(http.StatusBadRequest, "templateID is required")
	case life <= 0:
		return record{}, failf(http.StatusBadRequest, "Timeout must be greater than 0")
	case life > c.MaxLength:
		return record{}, failf(http.StatusBadRequest, "Timeout cannot be greater than %d hours", int(c.MaxLength.Hours()))
	case diskOnly && !q.AutoPause:
		return record{}, failf(http.StatusBadRequest, "autoPauseMemory requires autoPause to be enabled")
	case diskOnly && autoResume:
		return record{}, failf(http.StatusBadRequest, "autoPauseMemory cannot be disabled when autoResume is enabled")
	case len(q.VolumeMounts) > 0:
		return record{}, failf(http.StatusBadRequest, "volume mounts are not enabled on this server")
	case len(q.IAM.Tokens) > 0:
		return record{}, failf(http.StatusBadRequest, "workload identity (iam) is not enabled on this server")
	}
	now := time.Now()
	rec := record{
		ID: newID(), Template: q.TemplateID, State: e2b.StateRunning, CreatedAt: now, StartedAt: now, EndAt: now.Add(life),
		Timeout: life, Metadata: q.Metadata, Env: q.EnvVars, AutoPause: q.AutoPause, DiskOnly: diskOnly,
		AutoResume: autoResume, AllowInternet: q.AllowInternet, Network: q.Network,
	}
	if v2 || q.Secure {
		rec.Token = newToken()
	}
	return rec, q.checkNetwork(&rec)
}

func (q *createRequest) checkNetwork(rec *record) error {
	in, err := rec.wayIn()
	if err != nil {
		return failf(http.StatusBadRequest, "Error when parsing request: %v", err)
	}
	if err := errors.Join(in.check(), checkPlaceholders(rec.Network)); err != nil {
		return err
	}
	if in.Public != nil && !*in.Public {
		if rec.Token == "" {
			return failf(http.StatusBadRequest, "You cannot create a sandbox without public access unless you enable secure envd access via 'secure' flag.")
		}
		rec.TrafficToken = randomHex(16)
	}
	return nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, v2 bool) error {
	if err := s.limits.create(); err != nil {
		return err
	}
	var q createRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	rec, err := q.record(s.cfg, v2)
	if err != nil {
		return err
	}
	if _, err := s.rulesOf(rec); err != nil {
		return err
	}
	from := s.shelf.find(q.TemplateID)
	if from == nil && !s.hasTemplate(q.TemplateID) {
		return errNoTemplate(q.TemplateID)
	}
	base, _, _ := strings.Cut(q.TemplateID, ":")
	switch tpl := s.templates[base]; {
	case from != nil:
		from.Defaults.apply(&rec)
	case tpl != nil:
		from = tpl.files
		tpl.apply(&rec)
	}
	if alias, _, ok := parseName(q.TemplateID); ok { // a template's id, and what lists filter by, has no tag
		rec.Template = alias
	}
	sb, err := s.begin(r.Context(), rec, from)
	if err != nil {
		return err
	}
	sb.boot(r.Context())
	s.log.Debug("sandbox created", "sandbox_id", sb.id())
	writeJSON(w, http.StatusCreated, answer(sb.snapshot()))
	return nil
}

// hasTemplate says whether a name that is no snapshot's may be used. A
// snapshot that was removed must not come back as an empty sandbox.
func (s *Server) hasTemplate(name string) bool {
	base, _, _ := strings.Cut(name, ":")
	if snapshotForm.MatchString(base) || strings.HasPrefix(base, namespace+"/") {
		return false
	}
	if s.templates[base] != nil {
		return true
	}
	if s.cfg.StrictTemplates {
		return false
	}
	return len(s.cfg.Templates) == 0 || slices.Contains(s.cfg.Templates, base)
}

// begin starts a new sandbox and lets it be found. Its files are those of a
// snapshot, if one is given.
func (s *Server) begin(ctx context.Context, rec record, from *snapshot) (*sandbox, error) {
	if err := s.limits.acquire(); err != nil {
		return nil, err
	}
	if rec.DiskMB = 0; s.blank != nil {
		rec.DiskMB = int(s.blank.size >> 20)
	}
	sb := newSandbox(s, rec)
	sb.slot = true
	err := sb.moveIn(ctx, from)
	if err == nil {
		err = rec.save(sb.dir)
	}
	if err == nil {
		sb.log.add("info", "sandbox started", "template", rec.Template)
		err = s.publish(sb)
	}
	if err != nil {
		sb.kill()
		if e, ok := errors.AsType[*apiError](err); ok {
			return nil, e
		}
		return nil, errCreate(err)
	}
	return sb, nil
}

// moveIn gives a new sandbox its disk, with the files of a snapshot, and starts
// its jail.
func (s *sandbox) moveIn(ctx context.Context, from *snapshot) error {
	s.launch.Lock()
	defer s.launch.Unlock()
	err := os.Mkdir(s.dir, 0o755)
	if err == nil {
		err = s.openDisk()
	}
	if err == nil && from != nil {
		err = from.copyTo(ctx, s.disk.root)
	}
	if err == nil {
		err = s.beginJail()
	}
	return err
}

// errCreate tells a machine that has no more to give from one that fails: the
// first is as when the cloud is full, and coming again later may help.
func errCreate(err error) *apiError {
	for _, full := range []error{unix.EMFILE, unix.ENFILE, unix.EAGAIN, unix.ENOMEM, unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, full) {
			return &apiError{status: http.StatusServiceUnavailable, message: err.Error(), semantic: "sandbox_capacity_unavailable"}
		}
	}
	return &apiError{status: http.StatusInternalServerError, message: err.Error(), semantic: "sandbox_create_failed"}
}

// publish lets a sandbox be found and its time run.
func (s *Server) publish(sb *sandbox) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosing
	}
	s.boxes[sb.id()] = sb
	sb.mu.Lock()
	defer sb.mu.Unlock()
	sb.arm()
	return nil
}
