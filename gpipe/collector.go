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

// PauseCollector turns the process's garbage collector off until what it returns
// is called, once, whatever other pauses begin and end meanwhile: the last to
// end puts the percentage back that the first one found (see
// [debug.SetGCPercent], which nobody else should call between).
func PauseCollector() (resume func()) {
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
