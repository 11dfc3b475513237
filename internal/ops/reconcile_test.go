package ops_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sandjet/sandjet/internal/ops"
	"github.com/sandjet/sandjet/internal/query"
)

// A report that is too long for one message still comes: the end of the list is
// left out, the counts are not.
func TestReconcileFits(t *testing.T) {
	t.Parallel()
	const n = 20_000
	s := newSite(t, func(svc *ops.Service) {
		svc.Reconciler = func(_ context.Context, req query.ReconcileRequest) (query.ReconcileReply, error) {
			out := query.ReconcileReply{
				Worker: "w1", DryRun: req.DryRun, At: time.Now(), Complete: true,
				Counts: map[string]int{query.VerdictOwned: n}, Sessions: []query.ReconciledSession{},
			}
			for i := range n {
				out.Sandboxes = append(out.Sandboxes, query.ReconciledSandbox{
					Sandbox: fmt.Sprintf("i%d", i), State: "running", Verdict: query.VerdictOwned, Why: strings.Repeat("x", 100), Done: "left alone",
				})
			}
			return out, nil
		}
	})
	reply, refused := s.request(query.Reconcile, `{"dry_run":true}`)
	require.Nil(t, refused)
	var out query.ReconcileReply
	require.NoError(t, json.Unmarshal([]byte(reply), &out))
	require.True(t, out.DryRun)
	require.Equal(t, n, out.Counts[query.VerdictOwned])
	require.Equal(t, n, len(out.Sandboxes)+out.LeftOut)
	require.Greater(t, len(out.Sandboxes), 1000)
	require.Equal(t, "i0", out.Sandboxes[0].Sandbox)

	_, refused = s.request(query.Reconcile, `{"dryrun":true}`)
	require.Equal(t, query.CodeInvalid, refused.Code)
}
