package gpipe

import "runtime/debug"

// setPanicOnFault turns memory faults of this goroutine into panics; the function
// that it returns undoes this.
func setPanicOnFault() func() {
	old := debug.SetPanicOnFault(true)
	return func() { debug.SetPanicOnFault(old) }
}
