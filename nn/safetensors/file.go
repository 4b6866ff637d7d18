package safetensors

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Open is [Read] of the named file, to be closed when its tensors have been read.
func Open(name string) (*File, error) {
	r, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, reason(err))
	}
	f, err := open(r, name)
	if err != nil {
		r.Close()
		return nil, err
	}
	f.close = r.Close
	return f, nil
}

func open(r *os.File, name string) (*File, error) {
	st, err := r.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, reason(err))
	}
	if st.IsDir() {
		return nil, fmt.Errorf("%s is a directory: want the name of a file", name)
	}
	return Read(r, st.Size(), name)
}

// WriteFile is [Write] to the named file. It appears, or takes the place of the
// one before, only when it is complete and on the disk; after an error, nothing
// has changed and nothing is left behind. (A process that is killed leaves a
// file named .unfinished-... in the same directory.)
func WriteFile(name string, tensors []Tensor, metadata map[string]string) error {
	return replace(name, func(w io.Writer) error { return Write(w, tensors, metadata) })
}

// replace makes the named file of what write writes.
func replace(name string, write func(io.Writer) error) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, reason(err))
		}
	}()
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return errors.New("is a directory: want the name of a file")
	}
	f, err := unfinished(filepath.Dir(name))
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriterSize(f, chunk)
	if err := write(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	syncDir(filepath.Dir(name))
	return nil
}

// unfinished makes an empty file of a new name, with the permissions that any
// new file gets; os.CreateTemp gives fewer.
func unfinished(dir string) (*os.File, error) {
	for {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprintf(".unfinished-%08x", rand.Uint32())), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// syncDir makes a renaming last through a loss of power. Not every system lets
// a directory be synced, and the file is complete either way: errors say nothing.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}

// reason is an error of the file system without the path in it, which may be
// that of the unfinished file.
func reason(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
