// Package point names the boundaries between an effect and its record: where a
// worker that dies, is refused, loses an answer or freezes must leave nothing lost
// and nothing done twice. Every call that changes something outside the process
// (E2B, JetStream, Redis, the object bucket) passes one point:
//
//	at := point.Of("e2b", "create")
//	if err := point.Before(ctx, at); err != nil { … } // nothing was done
//	… the call …
//	if err := point.After(ctx, at); err != nil { … }  // done, the answer is lost
//
// In a product binary all of it is empty and compiled away. Built with the tag
// faultpoints, the environment says what happens where:
//
//	SANDJET_POINTS="e2b.create=crash@2,events.started=pause:5s"
//	SANDJET_OFF="fence,join"
//	SANDJET_POINTS_LOG=/path/to/file
//
// A rule is <point>=<fault>[:<duration>][@<pass>]; it fires once, at that pass
// (the first unless told) of the point. The faults:
//
//	crash   the effect is done, then the process kills itself
//	error   the call fails without effect
//	lost    the effect is done, and the call fails as if its answer never came
//	pause   the whole process freezes before the effect, and goes on after the duration
//
// SANDJET_OFF takes mechanisms out, for the negative controls: a campaign that
// passes without a mechanism has not proved it. SANDJET_POINTS_LOG names a file to
// which the name of each point is appended as it is passed, one a line, and
// "fired <rule>" when a fault strikes, "woke <rule>" after a pause. A malformed value ends the process at its
// start with a line that names it.
//
// After is passed only where the effect was done, as far as the caller knows.
package point
