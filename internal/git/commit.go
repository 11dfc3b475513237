package git

import (
	"context"
	"errors"
	"strconv"
)

// CommitOptions say what to commit.
type CommitOptions struct {
	Message  Commit
	Trailers Trailers
	// Base is where the job's changes begin, as Clone said. Empty is the empty
	// repository.
	Base string
	// Largest is the size above which a changed file is refused before git reads
	// it; 0 is none.
	Largest int64
}

// Committed is what became of the changes.
type Committed struct {
	// Commit is the tip of what the job has made: our commit, or the command's own
	// if it left nothing uncommitted. Empty if the repository has no commit.
	Commit string
	// Created reports whether a commit was made by this call.
	Created bool
	// Branch is what the work tree has checked out; empty if it is detached.
	Branch string
	// Changes is what is there since the base.
	Changes Changes

	history history
}

// Nothing reports whether there is nothing to push: a result, not an error.
func (c Committed) Nothing() bool { return len(c.Changes.Files) == 0 && c.Changes.Commits == 0 }

// Findings are the reasons why a push under g would be refused.
func (c Committed) Findings(g Guard) []Finding {
	f, _ := g.check(c.history)
	return f
}

// Commit makes one commit of all that is changed and not ignored, on top of what
// the command may have committed itself, and moves the work tree's branch to it.
// With nothing changed it makes none. Neither the work tree's hooks nor its
// filters are run; no credential is in reach.
//
// A file above Largest is an ErrTooLarge with its path, and nothing is committed.
func (w *Work) Commit(ctx context.Context, o CommitOptions) (Committed, error) {
	const op = "commit"
	author := Person{}
	if o.Message.Author != "" {
		author, _ = ParsePerson(o.Message.Author) // checked below
	}
	err := o.Message.validate("/commit")
	switch {
	case err != nil:
	case w.Committer.Name == "" || w.Committer.Email == "":
		err = errors.New("no committer")
	case o.Base != "" && !IsCommitID(o.Base):
		err = errors.New("the base is no commit id")
	}
	if err != nil {
		return Committed{}, &Error{Op: op, Kind: ErrInvalid, Message: err.Error()}
	}
	c := call{op: op, text: commitScript, env: w.identity(author), args: []string{
		w.Dir, w.Remote.URL, w.Filter, o.Base, strconv.FormatInt(o.Largest, 10),
	}}
	c.payload.add("message", o.Message.Message(o.Trailers))
	w.sign(&c.payload)
	out, err := w.run(ctx, c)
	if err != nil {
		return Committed{}, err
	}
	if out.code != 0 {
		e := classify(op, out.code, out.text)
		if e.Kind == ErrTooLarge {
			e.Paths = out.paths("large")
			e.Message = "larger than " + strconv.FormatInt(o.Largest, 10) + " bytes: remove them, or put them in .gitignore"
		}
		return Committed{}, e
	}
	res := Committed{Created: out.fields["created"] == "1", Branch: out.fields["branch"]}
	if res.Commit, err = out.commit("commit"); err != nil {
		return Committed{}, &Error{Op: op, Err: err}
	}
	if out.fields["commits"] != "" {
		if res.history, err = readHistory(out.reply); err != nil {
			return Committed{}, &Error{Op: op, Err: err}
		}
		res.Changes = res.history.Changes
	}
	return res, nil
}
