package git

import (
	"context"
	"path"
	"strconv"
)

// CloneOptions say how much of a repository is taken.
type CloneOptions struct {
	Ref    string // branch, tag or whole commit id; empty is the default branch
	Branch string // to make and check out
	Depth  int    // commits; 0 is all
	// AllBranches fetches every branch, not the ref alone.
	AllBranches bool
	// Mirror is a repository in the sandbox, baked into its template, whose
	// objects are used instead of fetched. It must stay there. If it is not
	// there, all is fetched.
	Mirror     string
	Submodules bool // check submodules out; the same credential, the same server
	LFS        bool // fetch the files kept in Git LFS; wants git-lfs in the sandbox
}

// Clone is a work tree that is there.
type Clone struct {
	// Base is the commit of the ref: where the job's changes begin. Empty if the
	// repository has no commit.
	Base string
	// Head is the commit checked out: Base, or the tip of the branch if the server
	// had it already. Empty if the repository has no commit.
	Head string
	// Default is the repository's default branch, if it says one.
	Default string
	// Branch reports whether the server had the branch already: the job's changes
	// go on top of it.
	BranchFound bool
	// Adopted reports whether the work tree was there already: an earlier try got
	// so far.
	Adopted bool
}

// Clone takes the repository into Dir and checks the branch out. If Dir holds it
// already on that branch, it is adopted as it is; if it holds anything else, the
// error is an ErrExists. A clone that is interrupted leaves nothing in Dir.
func (w *Work) Clone(ctx context.Context, o CloneOptions) (Clone, error) {
	const op = "clone"
	if err := o.check(); err != nil {
		return Clone{}, &Error{Op: op, Kind: ErrInvalid, Message: err.Error()}
	}
	out, err := w.do(ctx, call{op: op, text: cloneScript, online: true, args: []string{
		w.Dir, w.Remote.URL, o.Ref, o.Branch, strconv.Itoa(o.Depth), w.Filter,
		flag(o.AllBranches), o.Mirror, flag(o.Submodules), flag(o.LFS),
	}})
	if err != nil {
		return Clone{}, err
	}
	c := Clone{Default: out.fields["default"], BranchFound: out.fields["found"] != "", Adopted: out.fields["adopted"] == "1"}
	if c.Base, err = out.commit("base"); err != nil {
		return Clone{}, &Error{Op: op, Err: err}
	}
	if c.Head, err = out.commit("head"); err != nil {
		return Clone{}, &Error{Op: op, Err: err}
	}
	if CheckBranch(c.Default) != nil {
		c.Default = ""
	}
	return c, nil
}

func (o CloneOptions) check() error {
	if o.Ref != "" {
		if err := checkRefArg(o.Ref); err != nil {
			return problem("/ref", "%s", err)
		}
	}
	if err := CheckBranch(o.Branch); err != nil {
		return problem("/branch", "%s", err)
	}
	switch {
	case o.Depth < 0 || o.Depth > maxDepth:
		return problem("/depth", "%d is out of bounds", o.Depth)
	case o.Mirror != "" && (!deskRegexp.MatchString(o.Mirror) || path.Clean(o.Mirror) != o.Mirror):
		return problem("/mirror", "not an absolute, clean path")
	}
	return nil
}

func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}
