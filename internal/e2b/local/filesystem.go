package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// filesystemService is envd's filesystem service for the sandbox in the
// context.
type filesystemService struct{}

// place is a path of a call, made absolute, and what to do it with.
type place struct {
	*tree
	users accounts
	user  account
	name  string
}

// within resolves a call's path and runs do while the jail stays.
func within(ctx context.Context, h http.Header, name string, do func(p place) error) error {
	sb := box(ctx)
	u, err := sb.userOf(h)
	if err != nil {
		return err
	}
	name, err = expand(name, u)
	if err != nil {
		return connect.NewError(connect.CodeInvalidArgument, err)
	}
	err = sb.awake(func(j *jail) error { return do(place{tree: j.tree, users: j.users, user: u, name: name}) })
	return fileError(err, name)
}

// fileError gives an error of a file the code that envd gives it.
func fileError(err error, name string) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*connect.Error)):
		return err
	case errors.Is(err, errAsleep):
		return connect.NewError(connect.CodeUnavailable, err)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENOTDIR):
		return connect.NewError(connect.CodeNotFound, fmt.Errorf("path not found: '%s': %w", name, err))
	case errors.Is(err, unix.ENOSPC):
		return connect.NewError(connect.CodeResourceExhausted, err)
	case errors.Is(err, fs.ErrPermission):
		return connect.NewError(connect.CodePermissionDenied, err)
	}
	return connect.NewError(connect.CodeInternal, err)
}

func (p place) describe() (*filesystem.EntryInfo, error) { return p.entry(p.name, p.users) }

func (filesystemService) Stat(ctx context.Context, req *connect.Request[filesystem.StatRequest]) (*connect.Response[filesystem.StatResponse], error) {
	out := &filesystem.StatResponse{}
	err := within(ctx, req.Header(), req.Msg.GetPath(), func(p place) (err error) {
		out.Entry, err = p.describe()
		return err
	})
	return answerOr(out, err)
}

func (filesystemService) MakeDir(ctx context.Context, req *connect.Request[filesystem.MakeDirRequest]) (*connect.Response[filesystem.MakeDirResponse], error) {
	out := &filesystem.MakeDirResponse{}
	err := within(ctx, req.Header(), req.Msg.GetPath(), func(p place) error {
		fresh, err := p.mkdirAll(p.name, p.user)
		if errors.Is(err, unix.ENOTDIR) {
			return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path already exists but it is not a directory: %s", p.name))
		}
		if err == nil && !fresh {
			return connect.NewError(connect.CodeAlreadyExists, fmt.Errorf("directory already exists: %s", p.name))
		}
		if err == nil {
			out.Entry, err = p.describe()
		}
		return err
	})
	return answerOr(out, err)
}

func (filesystemService) Move(ctx context.Context, req *connect.Request[filesystem.MoveRequest]) (*connect.Response[filesystem.MoveResponse], error) {
	out := &filesystem.MoveResponse{}
	err := within(ctx, req.Header(), req.Msg.GetSource(), func(p place) error {
		to, err := expand(req.Msg.GetDestination(), p.user)
		if err != nil {
			return connect.NewError(connect.CodeInvalidArgument, err)
		}
		n, err := p.look(p.name) // before the parents are made
		if err != nil {
			return err
		}
		n.close()
		if _, err := p.mkdirAll(path.Dir(to), p.user); err != nil {
			return err
		}
		if err := p.rename(p.name, to); err != nil {
			return err
		}
		p.name = to
		out.Entry, err = p.describe()
		return err
	})
	return answerOr(out, err)
}

func (filesystemService) ListDir(ctx context.Context, req *connect.Request[filesystem.ListDirRequest]) (*connect.Response[filesystem.ListDirResponse], error) {
	out := &filesystem.ListDirResponse{}
	depth := int(max(1, req.Msg.GetDepth()))
	err := within(ctx, req.Header(), req.Msg.GetPath(), func(p place) error {
		if err := p.wantDir(); err != nil {
			return err
		}
		return p.walk(ctx, depth, func(e *filesystem.EntryInfo) { out.Entries = append(out.Entries, e) })
	})
	return answerOr(out, err)
}

// wantDir is the error of calls that need a directory and have none.
func (p place) wantDir() error {
	n, err := p.look(p.name)
	if err != nil {
		return err
	}
	defer n.close()
	if !n.isDir() {
		return connect.NewError(connect.CodeInvalidArgument, fmt.Errorf("path is not a directory: %s", p.name))
	}
	return nil
}

// walk visits what is below a directory in lexical order. It does not follow
// links: a tree of them may have no end.
func (p place) walk(ctx context.Context, depth int, visit func(*filesystem.EntryInfo)) error {
	names, err := p.names(p.name)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		below := p
		below.name = path.Join(p.name, name)
		e, err := below.describe()
		if err != nil {
			continue // it went meanwhile
		}
		visit(e)
		if depth > 1 && e.GetType() == filesystem.FileType_FILE_TYPE_DIRECTORY && e.SymlinkTarget == nil {
			if err := below.walk(ctx, depth-1, visit); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func (filesystemService) Remove(ctx context.Context, req *connect.Request[filesystem.RemoveRequest]) (*connect.Response[filesystem.RemoveResponse], error) {
	err := within(ctx, req.Header(), req.Msg.GetPath(), func(p place) error {
		if p.name == "/" {
			return connect.NewError(connect.CodeInvalidArgument, errors.New("the root directory cannot be removed"))
		}
		return p.removeAll(p.name)
	})
	return answerOr(&filesystem.RemoveResponse{}, err)
}

func answerOr[T any](out *T, err error) (*connect.Response[T], error) {
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(out), nil
}
