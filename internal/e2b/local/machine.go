package local

// machine is what a server has of the machine that it runs on, and how much of
// it a sandbox gets.
type machine struct {
	forks  *forker
	users  accounts
	groups *cgroups
	bounds Limits
	blank  *blank        // an empty disk of a sandbox; nil where sandboxes have directories
	noDisk error         // why
	mounts chan struct{} // full where as many disks come and go as may at once

	noNetwork bool   // strong sandboxes have a network of their own
	trust     *trust // nil before the server has a directory
}

func newMachine(cfg Config) *machine {
	m := &machine{forks: newForker(), mounts: make(chan struct{}, maxMounts), users: newAccounts(), groups: &cgroups{}, bounds: cfg.Limits.withDefaults(), noNetwork: cfg.NoNetwork}
	if !cfg.noGroups {
		m.groups = openCgroups()
	}
	return m
}

// close gives back what the machine gave; no sandbox may run any more.
func (m *machine) close() {
	m.forks.close()
	m.groups.close()
}
