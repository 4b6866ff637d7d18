// Package defect is how a panic that no input explains is reported: as a defect of
// this program, with the place where it happened and the trace of its goroutine.
package defect

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
)

// Error is a panic that was recovered.
type Error struct {
	Value any    // what it panicked with
	Where string // function, file and line of the innermost frame of this module
	Stack []byte // of the goroutine that panicked
}

// Recovered makes an error of what recover returned, in the deferred function that
// called it. What is one already, from another goroutine, stays what it is.
func Recovered(v any) *Error {
	if e, ok := v.(*Error); ok {
		return e
	}
	return &Error{v, where(), debug.Stack()}
}

// Catch, deferred, makes an error of a panic.
func Catch(err *error) {
	if v := recover(); v != nil {
		*err = Recovered(v)
	}
}

// Error is what it panicked with. [Report] has the rest.
func (e *Error) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap is what it panicked with, if that is an error.
func (e *Error) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Report is the line that says of an error that it is a defect and where, and its
// trace; not ok: it is none.
func Report(err error) (line string, trace []byte, ok bool) {
	var e *Error
	if !errors.As(err, &e) {
		return "", nil, false
	}
	return fmt.Sprintf("a defect of this program, in %s: %v", e.Where, err), e.Stack, true
}

// module is the path that the names of this module's functions begin with.
const module = "gpipebench"

// where is the innermost frame of this module below the first panic: deferred
// functions run above it, and may panic again.
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
