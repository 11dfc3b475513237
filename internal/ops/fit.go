package ops

import "encoding/json"

// fits reports whether an answer of n bytes gets through NATS.
func (s *Service) fits(n int) bool { return int64(n) <= s.JS.Conn().MaxPayload() }

func (s *Service) fitting(v any) bool {
	b, err := json.Marshal(v)
	return err != nil || s.fits(len(b))
}

// page reads a page, and a shorter one as long as it does not fit into one
// message. limit is what was asked for.
func page[T any](s *Service, limit int, read func(limit int) (T, error)) (T, error) {
	for limit = orDefault(limit, 100); ; limit /= 2 {
		out, err := read(limit)
		if err != nil || limit == 1 || s.fitting(out) {
			return out, err
		}
	}
}

func orDefault(n, def int) int {
	if n == 0 {
		return def
	}
	return n
}
