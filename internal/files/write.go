package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// Write makes a file with the output of write. It appears under its name, or
// replaces the existing file, only when it is complete and on the disk. After
// an error the existing file is unchanged and nothing is left over. A new file
// has the permissions that the process gives to any (umask); a replacement has
// those of the file it replaces.
//
// A symbolic link stays, and its target is written, even if it does not exist
// yet.
//
// Write also removes the unfinished files that killed processes left in the
// directory.
func Write(name string, write func(io.Writer) error) error {
	path, before, err := target(name)
	if err != nil {
		return named(name, err)
	}
	return named(name, put(path, false, func(f *os.File) error {
		if before != nil {
			if err := keepMode(f, before.Mode().Perm()); err != nil {
				return err
			}
		}
		w := bufio.NewWriterSize(f, 64<<10)
		if err := write(w); err != nil {
			return err
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return f.Sync()
	}))
}

// put makes a file or directory beside path, fills it, and renames it to path. Fill puts its content
// on the disk and leaves path free for a directory.
func put(path string, directory bool, fill func(own *os.File) error) (err error) {
	dir := filepath.Dir(path)
	sweep(dir)
	own, err := unfinished(dir, directory)
	if err != nil {
		return err
	}
	defer own.Close() // after the renaming: until then the lock shows that its writer is alive
	defer func() {
		if err != nil {
			os.RemoveAll(own.Name())
		}
	}()
	if err := fill(own); err != nil {
		return err
	}
	if err := os.Rename(own.Name(), path); err != nil {
		return err
	}
	syncDir(dir)
	return nil
}

// CheckWritable fails early if a file could not be written at the end of a long
// run. An empty name means that no file is wanted.
func CheckWritable(name string) error {
	if name == "" {
		return nil
	}
	path, _, err := target(name)
	if err == nil {
		tried := errors.New("tried")
		if err = put(path, false, func(*os.File) error { return tried }); err == tried {
			return nil
		}
	}
	if err = named(name, err); err != nil && !errors.Is(err, errNoFile) {
		err = &Error{name, fmt.Errorf("cannot be written: %w", Reason(err))}
	}
	return err
}

// Same reports whether two names lead to the same file, through links or
// otherwise, even if it does not exist yet.
func Same(a, b string) bool {
	x, _, errX := target(a)
	y, _, errY := target(b)
	if errX != nil || errY != nil {
		return false
	}
	return SameDir(x, y) || filepath.Base(x) == filepath.Base(y) && SameDir(filepath.Dir(x), filepath.Dir(y))
}

// errNoFile reports a path that is not that of a regular file.
var errNoFile = errors.New("want the name of a file")

// target returns the path without links to which a name leads, and the regular
// file there; nil: nothing exists there yet.
func target(name string) (path string, before fs.FileInfo, err error) {
	if path = name; name == "" {
		return "", nil, syscall.ENOENT
	}
	for range 40 { // the longest chain of links, as in Linux
		dir, base := filepath.Split(path)
		if base == "" {
			return "", nil, fmt.Errorf("is a directory, %w", errNoFile)
		}
		if dir == "" {
			dir = "."
		}
		if dir, err = filepath.EvalSymlinks(dir); err != nil {
			return "", nil, err
		}
		if strings.HasPrefix(dir, "/proc/") { // to which /dev/stdout and /dev/fd/1 lead
			return "", nil, fmt.Errorf("is a descriptor, %w", errNoFile)
		}
		path = filepath.Join(dir, base)
		before, err = os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil, nil
		case err != nil || before.Mode().IsRegular():
			return path, before, err
		case before.Mode()&fs.ModeSymlink == 0:
			return "", nil, fmt.Errorf("%s, %w", kindOf(before.Mode()), errNoFile)
		}
		link, err := os.Readlink(path)
		if err != nil {
			return "", nil, err
		}
		if path = link; !filepath.IsAbs(link) {
			path = dir + string(filepath.Separator) + link
		}
	}
	return "", nil, syscall.ELOOP
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

// temporary matches the names of unfinished files, and of directories that are being
// replaced, which end with their own names.
var temporary = regexp.MustCompile(`(?s)^\.unfinished-[0-9a-f]{16}(?:-(.+))?$`)

// Unfinished reports whether a name, without its directory, belongs to a file
// that is being written or whose writer was killed.
func Unfinished(name string) bool { return temporary.MatchString(name) }

// newName returns a name for an unfinished file or directory.
func newName() string { return fmt.Sprintf(".unfinished-%016x", rand.Uint64()) }

// unfinished makes an empty file or directory with a new name and the permissions
// of any new one, and locks it for as long as it is open.
func unfinished(parent string, directory bool) (*os.File, error) {
	for {
		name := filepath.Join(parent, newName())
		f, err := create(name, directory)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		// Another process may sweep between the creation and the lock.
		if !errors.Is(lock(f), syscall.EAGAIN) && names(f, name) {
			return f, nil
		}
		f.Close()
	}
}

func create(name string, directory bool) (*os.File, error) {
	if !directory {
		return os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	}
	if err := os.Mkdir(name, 0o777); err != nil {
		return nil, err
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		err = fs.ErrExist // another process has swept it: as if the name had been taken
	}
	return f, err
}

// sweep removes the unfinished files and directories in a directory whose writers
// were killed: those that no process has locked. A directory that was to be replaced gets
// its name back if nothing else has it. It leaves what it cannot examine.
func sweep(dir string) {
	if !locks {
		return
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		is := temporary.FindStringSubmatch(e.Name())
		if is == nil || !e.Type().IsRegular() && !e.IsDir() {
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
			was := filepath.Join(dir, is[1]) // without a name of its own: dir, which exists
			if _, err := os.Lstat(was); errors.Is(err, fs.ErrNotExist) {
				_ = os.Rename(name, was)
			} else {
				os.RemoveAll(name)
			}
		}
		f.Close()
	}
}

// names reports whether a name leads to an open file.
func names(f *os.File, name string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	at, err := os.Stat(name)
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
	for {
		f, _, err := openRegular(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, k)
		if err != nil {
			return nil, named(name, err)
		}
		switch err = lock(f); {
		case err == nil && names(f, name): // else another process has replaced it before the lock
			return f, nil
		case errors.Is(err, syscall.EAGAIN):
			err = ErrInUse
		}
		f.Close()
		if err != nil {
			return nil, named(name, err)
		}
	}
}
