package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// Write makes a file with the output of write. It appears under its name, or
// replaces the existing file, only when it is complete and on the disk. After
// an error the existing file is unchanged and nothing is left over. A new file
// has the permissions that the process gives to any (umask); a replacement has
// those of the file it replaces.
//
// A symbolic link stays, and its target is written, even if it does not exist
// yet. Files that are not regular (devices, named pipes, and descriptors such
// as /dev/stdout) are written to in place.
//
// Write also removes the unfinished files that killed processes left in the
// directory.
func Write(name string, write func(io.Writer) error) error {
	path, err := target(name)
	if err == nil {
		err = put(path, write)
	}
	return named(name, err)
}

// CheckWritable fails early if a file could not be written at the end of a long
// run. An empty name means that no file is wanted.
func CheckWritable(name string) error {
	if name == "" {
		return nil
	}
	path, err := target(name)
	if err == nil {
		err = try(path)
	}
	if err = named(name, err); err != nil && !errors.Is(err, errNoFile) {
		err = &Error{name, fmt.Errorf("cannot be written: %w", Reason(err))}
	}
	return err
}

// Same reports whether two names lead to the same file, through links or
// otherwise, even if it does not exist yet.
func Same(a, b string) bool {
	x, errX := target(a)
	y, errY := target(b)
	if errX != nil || errY != nil {
		return false
	}
	same := func(x, y string) bool {
		ofX, errX := os.Stat(x)
		ofY, errY := os.Stat(y)
		return errX == nil && errY == nil && os.SameFile(ofX, ofY)
	}
	return same(x, y) || filepath.Base(x) == filepath.Base(y) && same(filepath.Dir(x), filepath.Dir(y))
}

// errNoFile reports a path that cannot be a file's name.
var errNoFile = errors.New("is a directory, want the name of a file")

// maxLinks is the maximum length of a chain of links, as in Linux.
const maxLinks = 40

// target returns the path without links to which a name leads, whether or not
// it exists. For a descriptor, which leads on to something without a path, it
// returns the descriptor's path.
func target(name string) (string, error) {
	path := name
	if name == "" {
		return "", syscall.ENOENT
	}
	for range maxLinks {
		dir, base := filepath.Split(path)
		if base == "" {
			return "", errNoFile
		}
		if dir == "" {
			dir = "."
		}
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", err
		}
		path = filepath.Join(dir, base)
		if _, own := descriptor(path); own {
			return path, nil
		}
		link, err := os.Readlink(path)
		if err != nil {
			return path, nil // not a link, or nothing
		}
		if path = link; !filepath.IsAbs(link) {
			path = dir + string(filepath.Separator) + link
		}
	}
	return "", syscall.ELOOP
}

// existing returns the information on a path; nil: nothing exists there yet.
func existing(path string) (fs.FileInfo, error) {
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && st.IsDir():
		return nil, errNoFile
	}
	return st, err
}

// put writes to a path without links.
func put(path string, write func(io.Writer) error) error {
	if fd, own := descriptor(path); own {
		f, err := duplicate(fd, path)
		if err != nil {
			return err
		}
		return inPlace(f, write)
	}
	st, err := existing(path)
	if err != nil {
		return err
	}
	if st == nil || st.Mode().IsRegular() {
		return replace(path, st, write)
	}
	open := func() (*os.File, error) { return os.OpenFile(path, os.O_WRONLY, 0) }
	if st.Mode()&fs.ModeNamedPipe != 0 {
		open = func() (*os.File, error) { return openPipe(path, os.O_WRONLY) }
	}
	f, err := open()
	if err != nil {
		return err
	}
	return inPlace(f, write)
}

// inPlace writes to an open file and closes it.
func inPlace(f *os.File, write func(io.Writer) error) error {
	err := fill(f, write)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// replace makes a regular file; before is the existing one, or nil.
func replace(path string, before fs.FileInfo, write func(io.Writer) error) (err error) {
	dir := filepath.Dir(path)
	sweep(dir)
	f, err := unfinished(dir)
	if err != nil {
		return err
	}
	defer f.Close() // after the renaming: until then the lock shows that its writer is alive
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	if before != nil {
		if err := keepMode(f, before.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := fill(f, write); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// try reports whether put could write to a path.
func try(path string) error {
	if fd, own := descriptor(path); own {
		f, err := duplicate(fd, path)
		if err != nil {
			return err
		}
		return f.Close()
	}
	st, err := existing(path)
	if err != nil || st != nil && !st.Mode().IsRegular() {
		return err
	}
	dir := filepath.Dir(path)
	sweep(dir)
	f, err := unfinished(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.Remove(f.Name())
}

// fill writes through a buffer, which it flushes.
func fill(f *os.File, write func(io.Writer) error) error {
	w := bufio.NewWriterSize(f, 64<<10)
	if err := write(w); err != nil {
		return err
	}
	return w.Flush()
}

// keepMode gives a new file the permissions of the one that it replaces. It
// changes nothing if they are equal, since not every file system supports the
// change.
func keepMode(f *os.File, mode fs.FileMode) error {
	if st, err := f.Stat(); err != nil || st.Mode().Perm() == mode {
		return err
	}
	return f.Chmod(mode)
}

// temporary matches the names of unfinished files.
var temporary = regexp.MustCompile(`^\.unfinished-[0-9a-f]{16}$`)

// Unfinished reports whether a name, without its directory, is that of a file
// that is being written or whose writer was killed.
func Unfinished(name string) bool { return temporary.MatchString(name) }

// unfinished makes an empty file with a new name and the permissions of any new
// file, and locks it for as long as it is open.
func unfinished(dir string) (*os.File, error) {
	for {
		name := filepath.Join(dir, newName())
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Another process may sweep between the creation and the lock. A file
		// system without locks has no sweep either.
		if !errors.Is(lock(f), syscall.EWOULDBLOCK) {
			if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
				return f, nil
			}
		}
		f.Close()
	}
}

// sweep removes the unfinished files and directories in a directory whose writers
// were killed: those that no process has locked. It leaves what it cannot examine.
func sweep(dir string) {
	if !locks {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !temporary.MatchString(e.Name()) || !e.Type().IsRegular() && !e.IsDir() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		flag := os.O_RDWR
		if e.IsDir() {
			flag = os.O_RDONLY
		}
		f, err := os.OpenFile(name, flag, 0)
		if err != nil {
			continue
		}
		// If it was finished in the meantime, the name is gone or is another
		// file's.
		if lock(f) == nil && names(f, name) {
			os.RemoveAll(name)
		}
		f.Close()
	}
}

// names reports whether a name is that of an open file.
func names(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Lstat(name)
	return err == nil && os.SameFile(open, at)
}

// syncDir makes a renaming survive a loss of power. Not every system can sync a
// directory, and the file is complete either way, so errors are ignored.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// ErrInUse reports that another process has a file open for appending, or a directory
// locked.
var ErrInUse = errors.New("another process adds to it")

// OpenAppend opens a regular file for reading and appending, and creates it if
// it does not exist. Until it is closed, other processes get ErrInUse.
func OpenAppend(name string, k Kind) (*os.File, error) {
	f, err := openAppend(name, k)
	return f, named(name, err)
}

func openAppend(name string, k Kind) (*os.File, error) {
	if err := regular(name, k); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		f.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, err
	}
	return f, nil
}

// kindOf describes a file that is not regular.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "is a directory"
	case mode&fs.ModeDevice != 0:
		return "is a device"
	case mode&fs.ModeNamedPipe != 0:
		return "is a pipe"
	case mode&fs.ModeSocket != 0:
		return "is a socket"
	}
	return "is not a regular file"
}
