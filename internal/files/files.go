// Package files is how the program writes and reads every file that has a name.
// It is internal and at the module's root, since packages of all layers, from
// safetensors to the command, need it and nobody outside does.
//
// Writing is all or nothing: [Write] makes a file beside the one that is named,
// which takes its place when it is complete and on the disk. Reading is bounded:
// [Read] and [Open] know how large a file may be before they take memory for it.
// Neither waits for ever: not for the other end of a named pipe, nor for a device
// that never ends.
//
// A symbolic link stands for what it leads to. /dev/stdin, /dev/stdout and
// /dev/fd/N are this process's own descriptors, read or written where they
// stand.
//
// Every error is an [Error]: the name as it was given, and what is wrong with it.
package files

import (
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"syscall"
	"time"
)

// Error is what is wrong with a file.
type Error struct {
	Name string // as it was given
	Err  error  // without a name of a file in it
}

func (e *Error) Error() string { return Printable(e.Name) + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// named makes an Error of an error, if there is one. The path that one of the
// file system has in it is dropped: it may be that of a temporary file.
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

// Reason is an error without the name of the file that it is about, for where
// that is said already.
func Reason(err error) error {
	if e, ok := err.(*Error); ok {
		return e.Err
	}
	return err
}

// Printable is a name as it can stand in a message of one line: itself, or
// quoted where it has something in it that does not print.
func Printable(name string) string {
	if q := strconv.Quote(name); name == "" || q[1:len(q)-1] != name {
		return q
	}
	return name
}

// Size writes a number of bytes as limits are stated: in MiB if they are whole.
func Size(bytes int64) string {
	if bytes >= 1<<20 && bytes%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

// pipeWait is how long the other end of a named pipe may take to be opened.
const pipeWait = 2 * time.Second

// openPipe opens a named pipe, in os.O_RDONLY or os.O_WRONLY, unless nobody has
// the other end.
func openPipe(name string, flag int, wait time.Duration) (*os.File, error) {
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
	case <-time.After(wait):
	}
	// To be its other end ourselves lets go what waits in open.
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
