package failure

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// Defect is a panic that no input explains, recovered.
type Defect struct {
	Value any    // the value of the panic
	Where string // function, file and line of the innermost frame of this module
	Stack []byte // of the goroutine that panicked
}

// Recovered returns an error for the value of recover, called in the same
// deferred function. A value that is a *Defect already, from another goroutine,
// is returned unchanged.
func Recovered(v any) *Defect {
	if e, ok := v.(*Defect); ok {
		return e
	}
	return &Defect{v, where(), debug.Stack()}
}

// Catch, when deferred, turns a panic into an error.
func Catch(err *error) {
	if v := recover(); v != nil {
		*err = Recovered(v)
	}
}

// Error returns the value of the panic. [Report] returns the rest.
func (e *Defect) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value of the panic if it is an error.
func (e *Defect) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Report returns a line which says that err is a defect and where it happened,
// and its trace. ok is false if err is not a defect.
func Report(err error) (line string, trace []byte, ok bool) {
	var e *Defect
	if !errors.As(err, &e) {
		return "", nil, false
	}
	return fmt.Sprintf("a defect of this program, in %s: %v", e.Where, err), e.Stack, true
}

// module is the prefix of the names of this module's functions.
const module = "gpipebench"

// where returns the innermost frame of this module below the first panic:
// deferred functions run above it, and may panic again.
func where() string {
	pcs := make([]uintptr, 256)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	found := "no function of its own"
	for wanted := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			wanted = true
		case wanted && (strings.HasPrefix(f.Function, module+"/") || strings.HasPrefix(f.Function, module+".") || strings.HasPrefix(f.Function, "main.")):
			found, wanted = fmt.Sprintf("%s (%s:%d)", strings.TrimPrefix(f.Function, module+"/"), path.Join(path.Base(path.Dir(f.File)), path.Base(f.File)), f.Line), false
		}
		if !more {
			return found
		}
	}
}
