package experiments

import "fmt"

// UsageError is a request that cannot be carried out as it stands, whatever the
// machine and the files: an unknown name, a number out of range, more
// partitions than layers. Other errors are failures.
type UsageError struct{ Err error }

func (e *UsageError) Error() string { return e.Err.Error() }
func (e *UsageError) Unwrap() error { return e.Err }

func usagef(format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...)}
}

// usage marks an error, if there is one, as a UsageError.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{err}
}
