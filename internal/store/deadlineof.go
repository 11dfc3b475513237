package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadlineOf returns when a session is due, or ErrNotFound if it has no such
// deadline. While a claim on a due session lasts, that is the claim's end.
func (s *Store) DeadlineOf(ctx context.Context, kind Deadline, session string) (time.Time, error) {
	cmd := plain(ctx, "zscore", s.keys.due(kind), session)
	err := s.flush.do1(ctx, cmd)
	if err == nil && errors.Is(cmd.Err(), redis.Nil) {
		err = ErrNotFound
	}
	if err != nil {
		return time.Time{}, wrap(fmt.Sprintf("%s deadline of session %s", kind, session), err)
	}
	return fromMillis(fields{cmd.Val()}.int(0)), nil
}
