package gpipe

import (
	"slices"
	"sync"
)

// traffic counts what a stage receives. Several goroutines do that.
type traffic struct {
	mu  sync.Mutex
	all []Traffic
}

func (t *traffic) add(of Traffic) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.all, func(a Traffic) bool { return a.From == of.From && a.What == of.What })
	if i < 0 {
		t.all = append(t.all, of)
		return
	}
	a := &t.all[i]
	a.Messages, a.Bytes, a.Seconds = a.Messages+of.Messages, a.Bytes+of.Bytes, a.Seconds+of.Seconds
}
