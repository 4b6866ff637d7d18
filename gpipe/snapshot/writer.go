package snapshot

import (
	"errors"
	"fmt"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
)

// Writer writes snapshots of one training while it goes on. Its methods are for the
// goroutine that trains.
type Writer struct {
	dir    string
	keep   int
	ended  func(step int, err error)
	unlock func()
	spare  *gpipe.State // memory for the next copy
	step   int          // of the snapshot in work
	done   chan error   // has its outcome; nil: none is in work
}

// NewWriter makes a directory for snapshots, unless it is there, and keeps other writers
// out of it until Close. It checks that files can be made in it, and removes what killed
// writers have left. keep is the number of newest snapshots that stay, of those up to the one just
// written. ended is called for
// each snapshot with the reason why it was not written, or nil, by the method that learns of
// it; if it was not, older ones stay.
func NewWriter(dir string, keep int, ended func(step int, err error)) (*Writer, error) {
	if err := files.MakeDir(dir); err != nil {
		return nil, err
	}
	unlock, err := files.LockDir(dir)
	if errors.Is(err, files.ErrInUse) {
		err = fmt.Errorf("%w: wait for it, or choose another directory", err)
	}
	if err != nil {
		return nil, err
	}
	return &Writer{dir: dir, keep: keep, ended: ended, unlock: unlock}, nil
}

// Idle reports whether no snapshot is being written.
func (w *Writer) Idle() bool {
	if w.done != nil {
		select {
		case err := <-w.done:
			w.end(err)
		default:
			return false
		}
	}
	return true
}

// Wait waits until no snapshot is being written.
func (w *Writer) Wait() {
	if w.done != nil {
		w.end(<-w.done)
	}
}

func (w *Writer) end(err error) {
	w.done = nil
	w.ended(w.step, err)
}

// Save copies the trainer's state, and begins to write it with the rest of c. It waits for
// the copy, and before that for a snapshot that is still being written. Its error is the
// trainer's.
func (w *Writer) Save(t *gpipe.Trainer, c Contents) error {
	w.Wait()
	state, err := t.State(w.spare)
	if err != nil {
		return err
	}
	w.spare, c.State = state, state
	done := make(chan error, 1)
	w.step, w.done = state.Steps, done
	go func() { done <- w.write(c) }()
	return nil
}

// ErrOlder is in the outcome of a snapshot that was written.
var ErrOlder = errors.New("older ones could not be removed")

func (w *Writer) write(c Contents) (err error) {
	defer failure.Catch(&err)
	if err := Write(w.dir, c); err != nil {
		return err
	}
	if err := Prune(w.dir, c.State.Steps, w.keep); err != nil {
		return fmt.Errorf("%w: %w", ErrOlder, err)
	}
	return nil
}

// Close waits until no snapshot is being written, and lets other writers in.
func (w *Writer) Close() {
	w.Wait()
	w.unlock()
}
