package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
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

// In returns an error about a file in a message that begins with what it is read as. It
// drops a name that the error already contains.
func In(what, name string, err error) error {
	return fmt.Errorf("%s: %w", what, named(name, Reason(err)))
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

// Below lists the files in a folder of a directory and its subfolders, by their
// names relative to the directory, with slashes. It leaves out directories and
// the unfinished files of killed processes. A folder that does not exist has no
// files.
func Below(dir, folder string) (names []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), folder, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && name == folder {
			return fs.SkipAll
		}
		if err == nil && !d.IsDir() && !Unfinished(d.Name()) {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

// FirstOf names the first of some files of a directory and the number of the
// others.
func FirstOf(dir string, names []string) string {
	text := filepath.Join(dir, filepath.FromSlash(names[0]))
	if more := len(names) - 1; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// SameDir reports whether two names lead to one directory or file that is there.
func SameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// kindOf describes what is not a regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "is a directory"
	case mode&fs.ModeDevice != 0:
		return "is a device"
	case mode&fs.ModeNamedPipe != 0:
		return "is a pipe"
	}
	return "is not a regular file"
}
