// Package files writes and reads every file that has a name. It is internal and
// at the module's root, since packages of all layers, from safetensors to the
// command, need it and no other module does.
//
// Writing is all or nothing: [Write] makes a file beside the named one and
// moves it there when it is complete and on the disk. Only the log of a long
// run grows piece by piece ([Grow]). Reading is bounded:
// [Read] and [Open] know the maximum size of a file before they allocate
// memory. Neither waits for ever: not for the other end of a named pipe, nor
// for a device that never ends.
//
// A symbolic link stands for its target. /dev/stdin, /dev/stdout and /dev/fd/N
// are this process's own descriptors, read or written from their current
// position.
//
// Every error is an [Error]: the name as it was given, and the reason.
package files

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Error is an error about a named file.
type Error struct {
	Name string // as it was given
	Err  error  // without the name of a file
}

func (e *Error) Error() string { return Printable(e.Name) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// named turns err, if not nil, into an Error. It drops the path in an error of
// the file system, which may be that of a temporary file.
func named(name string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *fs.PathError:
		err = e.Err
	case *os.LinkError:
		err = e.Err
	case *os.SyscallError:
		err = e.Err
	}
	return &Error{name, err}
}

// Reason returns an error without the name of its file, for messages that name
// the file already.
func Reason(err error) error {
	if e, ok := err.(*Error); ok {
		return e.Err
	}
	return err
}

// Printable returns a name for a message of one line: unchanged, or quoted if
// it contains something that does not print.
func Printable(name string) string {
	if q := strconv.Quote(name); name == "" || q[1:len(q)-1] != name {
		return q
	}
	return name
}

// Size formats a number of bytes as limits are stated: in MiB if they are
// whole.
func Size(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// pipeWait is the time within which the other end of a named pipe must be
// opened. Tests set another.
var pipeWait = 2 * time.Second

// openPipe opens a named pipe, with os.O_RDONLY or os.O_WRONLY. It fails if no
// process opens the other end within pipeWait.
func openPipe(name string, flag int) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened, 1)
	go func() {
		f, err := os.OpenFile(name, flag, 0)
		done <- opened{f, err}
	}()
	select {
	case o := <-done:
		return o.file, o.err
	case <-time.After(pipeWait):
	}
	// Opening the other end here releases the goroutine that waits in open.
	other, what := os.O_WRONLY, "writes to"
	if flag == os.O_WRONLY {
		other, what = os.O_RDONLY, "reads from"
	}
	end, err := os.OpenFile(name, other|syscall.O_NONBLOCK, 0)
	if err == nil {
		if o := <-done; o.err == nil {
			o.file.Close()
		}
		end.Close()
	}
	return nil, fmt.Errorf("a pipe that no process %s", what)
}
