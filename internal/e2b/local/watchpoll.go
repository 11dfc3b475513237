package local

import (
	"context"
	"fmt"
	"sync"

	"connectrpc.com/connect"

	"github.com/sandjet/sandjet/internal/e2b/envd/filesystem"
)

// maxPolled bounds the events that wait for a client to ask; the oldest go
// first, so that a client which forgot its watcher costs little.
const maxPolled = 10_000

// watchers are those that clients ask for news. The zero value is ready.
type watchers struct {
	mu     sync.Mutex
	all    map[string]*polled
	closed bool
}

// polled is one watcher and the events since the client last asked.
type polled struct {
	w    *watcher
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex
	events []*filesystem.FilesystemEvent
}

func (p *polled) run() {
	defer close(p.done)
	defer p.w.close()
	_ = p.w.run(p.stop, func(ev *filesystem.FilesystemEvent) error {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.events = append(p.events, ev)
		if len(p.events) > maxPolled {
			p.events = p.events[1:]
		}
		return nil
	}, defaultKeepalive, func() error { return nil })
}

func (p *polled) end() {
	close(p.stop)
	<-p.done
}

func (ws *watchers) add(id string, p *polled) bool {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.closed {
		return false
	}
	if ws.all == nil {
		ws.all = make(map[string]*polled)
	}
	ws.all[id] = p
	return true
}

func (ws *watchers) find(id string) (*polled, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if p, ok := ws.all[id]; ok {
		return p, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("watcher with id %s not found", id))
}

func (ws *watchers) take(id string) (*polled, error) {
	p, err := ws.find(id)
	if err != nil {
		return nil, err
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all[id] != p { // another call was first
		return nil, connect.NewError(connect.CodeNotFound, fmt.Errorf("watcher with id %s not found", id))
	}
	delete(ws.all, id)
	return p, nil
}

// closeAll ends every watcher; none is taken after it.
func (ws *watchers) closeAll() {
	ws.mu.Lock()
	all := ws.all
	ws.all, ws.closed = nil, true
	ws.mu.Unlock()
	for _, p := range all {
		p.end()
	}
}

// CreateWatcher starts a watcher that is asked for its events.
func (filesystemService) CreateWatcher(ctx context.Context, req *connect.Request[filesystem.CreateWatcherRequest]) (*connect.Response[filesystem.CreateWatcherResponse], error) {
	w, err := newWatcher(ctx, req.Header(), req.Msg)
	if err != nil {
		return nil, err
	}
	p := &polled{w: w, stop: make(chan struct{}), done: make(chan struct{})}
	id := "w" + randomHex(8)
	if !box(ctx).watch.add(id, p) {
		w.close()
		return nil, connect.NewError(connect.CodeUnavailable, errAsleep)
	}
	go p.run() // ended by RemoveWatcher or with the sandbox
	return connect.NewResponse(&filesystem.CreateWatcherResponse{WatcherId: id}), nil
}

// GetWatcherEvents hands over the events since the last call.
func (filesystemService) GetWatcherEvents(ctx context.Context, req *connect.Request[filesystem.GetWatcherEventsRequest]) (*connect.Response[filesystem.GetWatcherEventsResponse], error) {
	p, err := box(ctx).watch.find(req.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := &filesystem.GetWatcherEventsResponse{Events: p.events}
	p.events = nil
	return connect.NewResponse(out), nil
}

// RemoveWatcher ends a watcher.
func (filesystemService) RemoveWatcher(ctx context.Context, req *connect.Request[filesystem.RemoveWatcherRequest]) (*connect.Response[filesystem.RemoveWatcherResponse], error) {
	p, err := box(ctx).watch.take(req.Msg.GetWatcherId())
	if err != nil {
		return nil, err
	}
	p.end()
	return connect.NewResponse(&filesystem.RemoveWatcherResponse{}), nil
}
