// Package usage marks errors about requests that cannot be carried out as they are.
package usage

import "fmt"

// Error is an error about a request that cannot be carried out as it is,
// whatever the machine and the files: an unknown name, a number out of range,
// more partitions than layers. Other errors are failures.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an *Error.
func Errorf(format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...)}
}

// Mark turns an error, if not nil, into an *Error.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}
