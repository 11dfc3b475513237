package worker

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sandjet/sandjet/internal/e2b"
	"github.com/sandjet/sandjet/internal/events"
	"github.com/sandjet/sandjet/internal/jobs"
)

// metrics are the worker's figures. No label holds an id.
type metrics struct {
	jobsEnded  *prometheus.CounterVec   // kind, class
	jobTime    *prometheus.HistogramVec // kind
	queueAge   *prometheus.HistogramVec // priority
	createTime prometheus.Histogram
	resumeTime prometheus.Histogram
	commands   *prometheus.CounterVec // class
	idleLag    prometheus.Histogram
	calls      *prometheus.HistogramVec // op, status
	takeovers  prometheus.Counter
	refusals   prometheus.Counter
	rejected   *prometheus.CounterVec // class
	orphans    prometheus.Counter
	breakers   *prometheus.GaugeVec // class
	turnedAway prometheus.Counter
	slowedDown prometheus.Counter
}

var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "sandjet", Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "sandjet", Name: name, Help: help, Buckets: seconds}, labels)
	}
	create := histogram("sandbox_create_seconds", "Time from the intent to a running sandbox.")
	resume := histogram("sandbox_resume_seconds", "Time to wake a paused sandbox.")
	idle := histogram("idle_pause_lag_seconds", "Time from a session's idle deadline to its pause job.")
	takeovers := counter("takeovers_total", "Jobs taken over from a worker that vanished.")
	refusals := counter("fence_refusals_total", "Claims lost: the server refused an event of an older claim.")
	orphans := counter("orphans_killed_total", "Sandboxes without a session that were killed.")
	turnedAway := counter("quota_refusals_total", "Sandboxes that E2B refused to run for its quota although we had a slot.")
	slowedDown := counter("rate_refusals_total", "Times that E2B asked to come again later.")
	m := &metrics{
		jobsEnded:  counter("jobs_total", "Jobs ended, by kind and class.", "kind", "class"),
		jobTime:    histogram("job_seconds", "Time from the first start to the end.", "kind"),
		queueAge:   histogram("queue_age_seconds", "Time from a job's publication to its start.", "priority"),
		createTime: create.WithLabelValues().(prometheus.Histogram),
		resumeTime: resume.WithLabelValues().(prometheus.Histogram),
		commands:   counter("commands_total", "Commands ended, by class.", "class"),
		idleLag:    idle.WithLabelValues().(prometheus.Histogram),
		calls:      histogram("e2b_call_seconds", "Calls to E2B, by operation and HTTP status (0: no answer).", "op", "status"),
		takeovers:  takeovers.WithLabelValues(),
		refusals:   refusals.WithLabelValues(),
		breakers: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "sandjet", Name: "breaker_state", Help: "Whether calls to E2B are held back, by class: 0 closed, 1 half-open, 2 open.",
		}, []string{"class"}),
		turnedAway: turnedAway.WithLabelValues(),
		slowedDown: slowedDown.WithLabelValues(),
		rejected:   counter("messages_rejected_total", "Messages that are no job, by class.", "class"),
		orphans:    orphans.WithLabelValues(),
	}
	reg.MustRegister(m.jobsEnded, m.jobTime, m.queueAge, create, resume, m.commands, idle, m.calls, takeovers, refusals, m.rejected, m.breakers, turnedAway, slowedDown, orphans)
	return m
}

func (m *metrics) provisioned(d time.Duration) { m.createTime.Observe(d.Seconds()) }
func (m *metrics) resumed(d time.Duration)     { m.resumeTime.Observe(d.Seconds()) }

func (m *metrics) startLag(d time.Duration, del *jobs.Delivery) {
	m.queueAge.WithLabelValues(del.Priority.String()).Observe(d.Seconds())
}

func (m *metrics) ended(d *jobs.Delivery, out events.Outcome) {
	m.jobsEnded.WithLabelValues(string(d.Kind), out.Class).Inc()
	m.jobTime.WithLabelValues(string(d.Kind)).Observe(float64(out.DurationMS) / 1000)
	if d.Kind == jobs.TaskRun && out.ExitCode != nil {
		m.commands.WithLabelValues(out.Class).Inc()
	}
}

func (m *metrics) call(c e2b.Call) {
	m.calls.WithLabelValues(c.Op, strconv.Itoa(c.Status)).Observe(c.Duration.Seconds())
}
