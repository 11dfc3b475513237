package events

import (
	"context"
	"fmt"
)

// Running lists the jobs of a session whose work has begun and neither ended nor
// been put off since. It reads the newest event of each kind from any replica, so
// it may lag by moments; and it fails for a session of which the stream holds more
// subjects than the server gives at once.
func (l *Log) Running(ctx context.Context, session string) ([]string, error) {
	any := Job{Session: session, ID: "*"}
	kinds := []Kind{KindStarted, KindReattached, KindWaiting, KindRetrying, KindInterrupted, Succeeded, Failed, Cancelled, Dead}
	var subjects []string
	for _, k := range kinds {
		subjects = append(subjects, l.subject(any, k))
	}
	msgs, err := l.get.fetch(ctx, l.stream, request{MultiLast: subjects})
	if err != nil {
		return nil, fmt.Errorf("running jobs of session %s: %w", session, err)
	}
	running := map[string]bool{}
	for _, m := range msgs { // in the order of the stream
		e, err := l.event(m)
		if err != nil {
			continue // somebody else's
		}
		running[e.Job.ID] = e.Kind == KindStarted || e.Kind == KindReattached
	}
	var ids []string
	for id, is := range running {
		if is {
			ids = append(ids, id)
		}
	}
	return ids, nil
}
