package local

import (
	"encoding/json"
	"net/http"
)

// rulesOf reads a sandbox's network rules.
func (s *Server) rulesOf(rec record) (*egressRules, error) {
	return newEgressRules(rec.Network, rec.AllowInternet, s.ownNetwork(s.isolation), s.trust)
}

// network replaces a sandbox's rules. They hold from the next request on, and
// tunnels that they would not have opened end.
func (s *Server) network(sb *sandbox, w http.ResponseWriter, r *http.Request) error {
	var update map[string]json.RawMessage
	if err := decode(r, &update); err != nil {
		return err
	}
	if err := sb.setNetwork(update); err != nil {
		return err
	}
	sb.launch.RLock()
	if sb.egress != nil {
		sb.egress.review()
	}
	sb.launch.RUnlock()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *sandbox) setNetwork(update map[string]json.RawMessage) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.settled(); err != nil {
		return err
	}
	rec := s.rec
	if err := rec.replaceNetwork(update); err != nil {
		return failf(http.StatusBadRequest, "Error when parsing request: %v", err)
	}
	if err := checkPlaceholders(rec.Network); err != nil {
		return err
	}
	rules, err := s.srv.rulesOf(rec)
	if err != nil {
		return err
	}
	s.rec.Network, s.rec.AllowInternet = rec.Network, rec.AllowInternet // alone: the rest is read without a lock
	s.save()
	s.egressRules.Swap(rules).transport.CloseIdleConnections()
	return nil
}

// replaceNetwork makes update all that there is of rules for the way out.
func (r *record) replaceNetwork(update map[string]json.RawMessage) error {
	r.AllowInternet = nil
	if b, ok := update["allow_internet_access"]; ok {
		if err := json.Unmarshal(b, &r.AllowInternet); err != nil {
			return err
		}
	}
	next := make(map[string]json.RawMessage)
	for k, v := range update {
		next[k] = v
	}
	delete(next, "allow_internet_access")
	var last map[string]json.RawMessage
	if len(r.Network) > 0 {
		if err := json.Unmarshal(r.Network, &last); err != nil {
			return err
		}
	}
	for _, k := range wayInMembers {
		delete(next, k)
		if v, ok := last[k]; ok {
			next[k] = v
		}
	}
	var err error
	r.Network, err = json.Marshal(next)
	return err
}

// shownNetwork is a network as it came, without the password of its proxy.
func shownNetwork(network json.RawMessage) json.RawMessage {
	var n map[string]json.RawMessage
	if json.Unmarshal(network, &n) != nil {
		return network
	}
	var proxy map[string]json.RawMessage
	if json.Unmarshal(n["egressProxy"], &proxy) != nil || proxy["password"] == nil {
		return network
	}
	delete(proxy, "password")
	n["egressProxy"], _ = json.Marshal(proxy) // of parts that were JSON
	shown, _ := json.Marshal(n)
	return shown
}
