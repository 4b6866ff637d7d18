// Package usage marks requests that cannot be carried out as they stand, and quotes
// what they said.
package usage

import (
	"fmt"
)

// Error is a request that cannot be carried out as it stands, whatever the
// machine and the files: an unknown name, a number out of range, more
// partitions than layers. Other errors are failures.
type Error struct{ Err error }

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

func Errorf(format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...)}
}

// Mark marks an error, if there is one, as a UsageError.
func Mark(err error) error {
	if err == nil {
		return nil
	}
	return &Error{err}
}
