package plan

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/sandjet/sandjet/internal/jobs"
	"github.com/sandjet/sandjet/internal/wire"
)

// shares is how common each flavour is.
var shares = []struct {
	flavour Flavour
	share   int
}{
	{Quick, 300},
	{Steady, 200},
	{Long, 55},
	{Loud, 12},
	{Silent, 50},
	{Failing, 60},
	{Again, 40},
	{Cancelled, 45},
	{Duplicate, 50},
	{Delayed, 35},
	{Alone, 30},
	{Unique, 20},
	{Poisoned, 25},
	{Missing, 10},
	{Upload, 35},
	{Pause, 10},
	{Resume, 10},
	{Provision, 10},
}

// life is a session while the plan uses it.
type life struct {
	id      string
	left    int
	destroy bool
}

// maker makes the jobs of a plan.
type maker struct {
	o    Options
	r    *rand.Rand
	jobs []*Job
	open []*life
	made int // sessions so far
}

// work is the workload of a seed.
func work(o Options, r *rand.Rand) []*Job {
	m := &maker{o: o, r: r}
	for len(m.jobs) < o.Jobs {
		m.next()
	}
	return m.jobs
}

// next adds a job to some session, and what belongs to it.
func (m *maker) next() {
	for len(m.open) < m.o.Open {
		m.begin()
	}
	s := m.open[m.r.IntN(len(m.open))]
	f := m.flavour()
	j := m.add(s.id, f)
	if f == Upload {
		m.download(j)
	}
	if s.left--; s.left > 0 {
		return
	}
	if s.destroy {
		d := m.add(s.id, Destroy)
		d.Settled = true
	}
	m.open = slices.DeleteFunc(m.open, func(x *life) bool { return x == s })
}

// begin takes a new session into use.
func (m *maker) begin() {
	m.made++
	s := &life{id: fmt.Sprintf("s%d-%d", m.o.Seed, m.made), left: 3 + m.r.IntN(14), destroy: m.r.IntN(10) < 8}
	m.open = append(m.open, s)
	if len(m.o.Only) == 0 && m.r.IntN(2) == 0 {
		m.add(s.id, Provision)
	}
}

func (m *maker) flavour() Flavour {
	if len(m.o.Only) > 0 {
		return m.o.Only[m.r.IntN(len(m.o.Only))]
	}
	sum := 0
	for _, s := range shares {
		sum += s.share
	}
	at := m.r.IntN(sum)
	for _, s := range shares {
		if at -= s.share; at < 0 {
			return s.flavour
		}
	}
	return Quick
}

// add makes a job and everything about it.
func (m *maker) add(session string, f Flavour) *Job {
	n := len(m.jobs) + 1
	j := &Job{N: n, Flavour: f, Session: session, ID: fmt.Sprintf("j%05d-%s", n, f), Exclusive: true}
	m.jobs = append(m.jobs, j)
	common := jobs.Common{ID: j.ID, Session: session}
	switch f {
	case Poisoned:
		m.poison(j)
	case Missing:
		j.Kind = jobs.FileDownload
		j.Payload = &jobs.File{Common: common, Path: "not/there-" + j.ID, Object: "never-" + j.ID}
	case Upload:
		names := []string{"seed-small", "seed-middle", "seed-large"}
		j.Kind, j.Object = jobs.FileUpload, names[m.r.IntN(len(names))]
		j.Payload = &jobs.File{Common: common, Path: "in/" + j.ID, Object: j.Object}
	case Download:
		// Its upload fills it in.
	case Provision:
		j.Kind = jobs.SandboxProvision
		j.Payload = &jobs.Provision{Common: common, IdleTimeout: wire.Duration(m.idle()), MaxAge: wire.Duration(time.Hour)}
	case Pause, Resume, Destroy:
		j.Kind = map[Flavour]jobs.Kind{Pause: jobs.SandboxPause, Resume: jobs.SandboxResume, Destroy: jobs.SandboxDestroy}[f]
		j.Payload = &jobs.Lifecycle{Common: common, Reason: "the plan says so"}
	default:
		m.command(j, common)
	}
	return j
}

func (m *maker) idle() time.Duration {
	if m.o.Idle > 0 {
		return m.o.Idle
	}
	return time.Duration(2+m.r.IntN(6)) * time.Second
}

// command fills in a task.run.
func (m *maker) command(j *Job, c jobs.Common) {
	r, sc := m.r, &Script{Lines: 1 + m.r.IntN(20)}
	run := &jobs.Run{Timeout: wire.Duration(5 * time.Minute)}
	switch j.Flavour {
	case Steady:
		sc.Lines, sc.Every = 10+r.IntN(30), time.Duration(40+r.IntN(80))*time.Millisecond
	case Long:
		sc.Every = 250 * time.Millisecond
		sc.Lines = int((5*m.o.AckWait+time.Second)/sc.Every) + 1
	case Loud:
		sc.Loud = numbers(m.o.Loud)
	case Silent:
		sc.Lines, sc.Sleep = 0, time.Duration(1500+r.IntN(3000))*time.Millisecond
	case Failing:
		sc.Exit = 3
	case Again:
		sc.First, run.RetryOnExit = 7, []int{7}
	case Cancelled:
		sc.Every, sc.Lines = 200*time.Millisecond, 600
		j.CancelAfter = time.Duration(r.IntN(4000)) * time.Millisecond
	case Duplicate:
		j.Twice = 1 + r.IntN(40)
	case Delayed:
		c.Delay = wire.Duration(500+r.IntN(5000)) * wire.Duration(time.Millisecond)
	case Alone:
		j.Session, c.Session = j.ID, ""
	case Unique:
		c.Unique = fmt.Sprintf("key-%d", r.IntN(3))
		sc.Every = 100 * time.Millisecond
	}
	if j.Flavour != Delayed && r.IntN(5) == 0 {
		no := false
		c.Exclusive, j.Exclusive = &no, false
	}
	j.Kind, j.Script = jobs.TaskRun, sc
	run.Common, run.Argv = c, sc.Argv(j.ID)
	j.Payload = run
}

// poison makes a body that no worker can take.
func (m *maker) poison(j *Job) {
	bodies := []string{
		`{"id":%q,"session":%q,"argv":["true"],"colour":"red"}`,
		`{"id":%q,"session":%q}`,
		`{"id":%q,"session":%q,"argv":"true"}`,
		`{"id":%q,"session":%q,"argv":["true"],"timeout":"soon"}`,
	}
	j.Kind = jobs.TaskRun
	j.Body = json.RawMessage(fmt.Sprintf(bodies[m.r.IntN(len(bodies))], j.ID, j.Session))
}

// download fetches what an upload put there.
func (m *maker) download(up *Job) {
	j := m.add(up.Session, Download)
	j.Kind, j.Object = jobs.FileDownload, "out-"+up.ID
	j.Payload = &jobs.File{Common: jobs.Common{ID: j.ID, Session: j.Session}, Path: "in/" + up.ID, Object: j.Object}
}
