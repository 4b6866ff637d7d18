package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// WriteDir makes a directory with the files that fill puts into the one that it is called
// with. It appears under its name, or replaces the existing directory, only when it is
// complete and on the disk, as far as fill writes by [Write]. After an error the existing
// one is unchanged and nothing is left over. A process that is killed leaves directories
// with names of unfinished files, which the next writing beside them removes; but where the
// existing one has lost its name and no other has it, that is undone.
func WriteDir(name string, fill func(dir string) error) error {
	path := filepath.Clean(name)
	aside := filepath.Join(filepath.Dir(path), newName()+"-"+filepath.Base(path))
	var before *os.File
	err := put(path, true, func(own *os.File) (err error) {
		if err := fill(own.Name()); err != nil {
			return err
		}
		own.Sync() // as in syncDir
		if before, err = os.Open(path); err == nil {
			_ = lock(before) // so that no other process sweeps it; an error: nor can it then
		}
		if err := os.Rename(path, aside); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		_ = os.Rename(aside, path) // an error: it was not moved
	} else {
		os.RemoveAll(aside)
	}
	before.Close() // also of nil
	return named(name, err)
}

// RemoveDir removes a directory with everything in it. Under its name it is there with all
// its files or not at all, even if the process is killed meanwhile.
func RemoveDir(name string) error {
	path := filepath.Clean(name)
	parent := filepath.Dir(path)
	aside := filepath.Join(parent, newName())
	err := os.Rename(path, aside)
	if err == nil {
		syncDir(parent)
		err = os.RemoveAll(aside)
	}
	return named(name, err)
}

// LockDir keeps other processes, and other callers in this one, from locking a directory
// until the returned function is called, however this process ends. They get [ErrInUse].
// Where the system has no such locks, nothing is locked.
func LockDir(name string) (unlock func(), err error) {
	d, err := os.Open(name)
	if err != nil {
		return nil, named(name, err)
	}
	if errors.Is(lock(d), syscall.EAGAIN) {
		d.Close()
		return nil, named(name, ErrInUse)
	}
	return func() { d.Close() }, nil
}

// MakeDir makes a directory, with those above it, unless it is there, and checks that
// files can be made in it. Others may remove directories above it meanwhile, if these are
// empty.
func MakeDir(name string) error {
	err := os.MkdirAll(name, 0o777)
	for again := 0; errors.Is(err, fs.ErrNotExist) && again < 100; again++ {
		err = os.MkdirAll(name, 0o777) // one above it was removed before it had this one
	}
	if err == nil {
		err = Reason(CheckWritable(filepath.Join(name, "any")))
	}
	return named(name, err)
}
