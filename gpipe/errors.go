package gpipe

import (
	"fmt"

	"gpipebench/gpipe/place"
)

// StageError is the first error of a step: where it happened and what it was.
type StageError struct {
	At   place.Place
	Task string // "F3", "B0", "update"
	Err  error
}

func (e *StageError) Error() string { return fmt.Sprintf("%v, %s: %v", e.At, e.Task, e.Err) }
func (e *StageError) Unwrap() error { return e.Err }

// NonFiniteError names where a NaN or an infinity first appeared.
type NonFiniteError struct {
	What  string  // "loss", "gradient", "output"
	Where string  // a layer or a parameter
	Op    string  // the operation, where it is known
	Value float32 // NaN, +Inf or -Inf
}

func (e *NonFiniteError) Error() string {
	s := fmt.Sprintf("%s of %s is %v", e.What, e.Where, e.Value)
	if e.Op != "" {
		s += " (" + e.Op + ")"
	}
	return s
}
