package gpipe

import "runtime/debug"

// setPanicOnFault makes memory faults of this goroutine panics; calling what it
// returns ends that.
func setPanicOnFault() func() {
	old := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(old) }
}
