// Package shutdown lets work finish in order when its context is cancelled: work that must not
// be cut off holds the context, and who cancels it waits for all holds before giving up.
package shutdown

import (
	"context"
	"sync"
)

type key struct{}

// Holds are the holds of one context.
type Holds struct {
	lock sync.Mutex
	none *sync.Cond
	n    int
}

// With returns a context that can be held.
func With(ctx context.Context) (context.Context, *Holds) {
	h := &Holds{}
	h.none = sync.NewCond(&h.lock)
	return context.WithValue(ctx, key{}, h), h
}

// On holds a context until release is called, once. A context that [With] has not made is
// not held, and release does nothing.
func On(ctx context.Context) (release func()) {
	h, ok := ctx.Value(key{}).(*Holds)
	if !ok {
		return func() {}
	}
	h.add(1)
	return func() { h.add(-1) }
}

func (h *Holds) add(n int) {
	h.lock.Lock()
	defer h.lock.Unlock()
	if h.n += n; h.n == 0 {
		h.none.Broadcast()
	}
}

// Wait waits until there are no holds.
func (h *Holds) Wait() {
	h.lock.Lock()
	defer h.lock.Unlock()
	for h.n > 0 {
		h.none.Wait()
	}
}
