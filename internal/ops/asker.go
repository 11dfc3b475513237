package ops

import (
	"github.com/sandjet/sandjet/internal/session"
	"github.com/sandjet/sandjet/internal/store"
	"github.com/sandjet/sandjet/internal/wire"
)

// asker is who asks: the owner whom the question's subject proves, or an operator, whose
// questions are about everything. An owner's are about what a subject has proved to be
// his; what only a body says is his may be anybody's.
type asker string

const operator asker = ""

func (a asker) check() error {
	if a == operator {
		return nil
	}
	return wire.CheckID("owner in the subject", string(a))
}

// may reports whether a may know of what a subject has proved to be somebody's.
func (a asker) may(proven string) bool { return a == operator || string(a) == proven }

func (a asker) maySession(r session.Record) bool {
	if !r.OwnerProven {
		return a.may("")
	}
	return a.may(r.Owner)
}

func (a asker) mayView(v store.JobView) bool {
	if !v.Proven {
		return a.may("")
	}
	return a.may(v.Owner)
}
