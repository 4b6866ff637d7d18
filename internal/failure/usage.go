package failure

import "fmt"

// UsageError is an error about a request that cannot be carried out as it is,
// whatever the machine and the files: an unknown name, a number out of range,
// more partitions than layers. Other errors are failures.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// Usagef returns a *UsageError.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// Usage turns an error, if not nil, into a *UsageError.
func Usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}
