package point

import "errors"

// Switch names a mechanism that Off can take out.
type Switch string

// The mechanisms with a switch.
const (
	Fence     Switch = "fence"     // events are published against the claim
	Join      Switch = "join"      // who comes next joins the running command
	Offsets   Switch = "offsets"   // output goes on from where the stream has it
	Lane      Switch = "lane"      // exclusive jobs of a session have the turn one at a time
	Adopt     Switch = "adopt"     // a creation without an answer is looked for
	History   Switch = "history"   // a job's log is read before it is taken up
	Rebuild   Switch = "rebuild"   // a view that was wiped is filled again
	Waits     Switch = "waits"     // quota, rate and outages spend no attempt
	IdleGuard Switch = "idleguard" // nothing is paused while a job runs or waits
	Canary    Switch = "canary"    // a sandbox that comes back is compared with what was put to sleep
	Grace     Switch = "grace"     // a sandbox without a session is left alone for a while
	Beat      Switch = "beat"      // a message in hand is kept from being delivered again
	Masking   Switch = "masking"   // secrets are masked in what is written
)

// Switches lists all of them.
func Switches() []Switch {
	return []Switch{Fence, Join, Offsets, Lane, Adopt, History, Rebuild, Waits, IdleGuard, Canary, Grace, Beat, Masking}
}

// What Before and After return when a fault strikes.
var (
	// ErrFailed stands for a call that failed and did nothing.
	ErrFailed = errors.New("fault point: the call failed")
	// ErrLost stands for a call that did its work, and whose answer got lost.
	ErrLost = errors.New("fault point: the answer is lost")
)
