package query_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/query"
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/schemas"
	"github.com/sandjet/sandjet/schemas/schematest"
)

// questions are the types of each question and its answer.
var questions = map[string]struct {
	request, reply func(testing.TB, *schemas.Schema)
}{
	query.SessionGet:    {schematest.Read[query.SessionRequest], schematest.Written[session.Record]},
	query.SessionList:   {schematest.Read[query.SessionListRequest], schematest.Written[query.SessionListReply]},
	query.SessionStatus: {schematest.Read[query.SessionRequest], schematest.Written[query.SessionStatusReply]},
	query.JobGet:        {schematest.Read[query.JobRequest], schematest.Written[query.Job]},
	query.JobList:       {schematest.Read[query.JobListRequest], schematest.Written[query.JobListReply]},
	query.JobCancel:     {schematest.Read[query.JobCancelRequest], schematest.Written[query.JobCancelReply]},
	query.JobWhy:        {schematest.Read[query.JobRequest], schematest.Written[query.JobWhyReply]},
	query.DeadList:      {schematest.Read[query.DeadListRequest], schematest.Written[query.DeadListReply]},
	query.DeadGet:       {schematest.Read[query.DeadRequest], schematest.Written[query.DeadLetter]},
	query.DeadReplay:    {schematest.Read[query.DeadRequest], schematest.Written[query.DeadReplayReply]},
	query.DeadDiscard:   {schematest.Read[query.DeadRequest], schematest.Written[query.DeadDiscardReply]},
	query.Stats:         {schematest.Read[struct{}], schematest.Written[query.StatsReply]},
	query.Doctor:        {schematest.Read[struct{}], schematest.Written[query.DoctorReply]},
	query.Reconcile:     {schematest.Read[query.ReconcileRequest], schematest.Written[query.ReconcileReply]},
}

// The Go types of questions and answers have the fields of their schemas, what
// Go always writes in an answer is required, and the examples pass through.
func TestTypesAgreeWithSchemas(t *testing.T) {
	t.Parallel()
	for subject, types := range questions {
		request, ok := schemas.Request(subject)
		require.True(t, ok, "%s has no schema of its request", subject)
		types.request(t, request)
		reply, ok := schemas.Reply(subject)
		require.True(t, ok, "%s has no schema of its reply", subject)
		types.reply(t, reply)
	}
}

func TestEveryQuestionSchemaHasASubject(t *testing.T) {
	t.Parallel()
	for _, name := range schemas.Names() {
		if name, ok := strings.CutPrefix(name, "query/"); ok {
			subject := "api." + strings.TrimSuffix(strings.TrimSuffix(name, ".request"), ".reply")
			require.Contains(t, questions, subject)
		}
	}
}

// What Go fills in is valid as Go writes it.
func TestFilledAnswersAreValid(t *testing.T) {
	t.Parallel()
	now := time.Now()
	record := session.Record{Session: "s1", State: session.Active, Generation: 1, CreatedAt: now, UpdatedAt: now}
	answers := map[string]any{
		query.SessionList: query.SessionListReply{Sessions: []session.Record{record}, Next: "x"},
		query.SessionStatus: query.SessionStatusReply{Session: record, Running: 1, Queued: 1, Sandbox: &query.Sandbox{
			ID: "i", State: "running", Template: "base", StartedAt: now, EndAt: now, CPUCount: 2, MemoryMB: 1, DiskMB: 1, CPUPct: 0.5, MemUsed: 1, DiskUsed: 1,
		}},
		query.JobGet:     query.Job{Session: "s1", Job: "j7", State: "claimed", Attempt: 1, AcceptedAt: now, UpdatedAt: now},
		query.JobCancel:  query.JobCancelReply{Session: "s1", Job: "j7", State: "requested"},
		query.JobWhy:     query.JobWhyReply{Session: "s1", Job: "j7", Summary: "x", Chain: []query.WhyLink{{Seq: 1, Time: now, Kind: "accepted", Says: "x"}}},
		query.DeadGet:    query.DeadLetter{Seq: 1, Time: now, Kind: "task.run", Job: "j7", Subject: "high.task.run", Reason: "x", Class: "invalid", Body: "{}"},
		query.DeadReplay: query.DeadReplayReply{Subject: "task.run", StreamSeq: 1, Job: "j7"},
		query.Stats:      query.StatsReply{Worker: "w", Sessions: map[string]int{"active": 1}, Slots: query.Slots{Used: 1, Limit: 20}},
		query.Doctor:     query.DoctorReply{Worker: "w", Findings: []query.Finding{{Severity: query.SeverityRefusal, Name: "x", What: "x", Advice: "x"}}},
		query.Reconcile: query.ReconcileReply{
			Worker: "w", DryRun: true, At: now, Problems: []string{"x"}, Counts: map[string]int{query.VerdictOrphan: 1},
			Sandboxes: []query.ReconciledSandbox{{Sandbox: "i1", State: "running", Verdict: query.VerdictOrphan, Why: "x", Done: "x", Session: "s", Generation: 1, StartedAt: now}},
			LeftOut:   1, Sessions: []query.ReconciledSession{{Session: "s", State: "active", Why: "x", Done: "x"}},
		},
	}
	for subject, answer := range answers {
		s, _ := schemas.Reply(subject)
		require.NoError(t, schematest.Valid(s, answer), subject)
	}
}

// A nil list would be written as null: who answers has to make it an empty one.
func TestNilListsAreRefused(t *testing.T) {
	t.Parallel()
	for subject, answer := range map[string]any{
		query.SessionList: query.SessionListReply{}, query.JobList: query.JobListReply{}, query.DeadList: query.DeadListReply{}, query.Reconcile: query.ReconcileReply{Counts: map[string]int{}}, query.Doctor: query.DoctorReply{},
	} {
		s, _ := schemas.Reply(subject)
		require.ErrorContains(t, schematest.Valid(s, answer), "want an array", subject)
	}
}
