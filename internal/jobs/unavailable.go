package jobs

// unavailable refuses, by name, what the contract has and this version does not:
// better than a job that quietly runs without it.
func unavailable(k Kind, p Payload) error {
	const reason = "not available in this version"
	switch p := p.(type) {
	case *Git:
		return invalid("", "%s: %s", k, reason)
	case *Provision:
		if len(p.Secrets) > 0 {
			return invalid("/secrets", reason)
		}
	case *Run:
		if len(p.Secrets) > 0 {
			return invalid("/secrets", reason)
		}
		if p.Repo != nil {
			return invalid("/repo", reason)
		}
	}
	return nil
}
