package gpipe

import (
	"runtime/debug"
	"sync"
)

// Steps of emulated devices run without the garbage collector, which would run
// beside a task that is timed alone. It is a setting of the whole process, so
// steps that overlap share one pause.
var collector struct {
	sync.Mutex
	pauses  int
	percent int // before the first of them
}

// pauseCollector turns the process's garbage collector off until resume is called;
// further calls of resume do nothing. Pauses may overlap: the last to end restores
// the percentage that the first one found. [debug.SetGCPercent] must not be called
// meanwhile.
func pauseCollector() (resume func()) {
	collector.Lock()
	defer collector.Unlock()
	if collector.pauses++; collector.pauses == 1 {
		collector.percent = debug.SetGCPercent(-1)
	}
	return sync.OnceFunc(func() {
		collector.Lock()
		defer collector.Unlock()
		if collector.pauses--; collector.pauses == 0 {
			debug.SetGCPercent(collector.percent)
		}
	})
}
