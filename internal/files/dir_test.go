package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gpipebench/internal/testkit"
)

// filled returns a function that fills a directory with a file.
func filled(content string) func(dir string) error {
	return func(dir string) error { return Write(filepath.Join(dir, "file"), text(content)) }
}

func TestRemoveDir(t *testing.T) {
	name := filepath.Join(t.TempDir(), "dir")
	testkit.NoError(t, errors.Join(WriteDir(name, filled("x")), RemoveDir(name)))
	testkit.Equal(t, len(testkit.Must(os.ReadDir(filepath.Dir(name)))(t)), 0, "entries that are left")
	testkit.Is(t, RemoveDir(name), fs.ErrNotExist)
}

// What killed writers have left goes at the next writing, and nothing else: neither what is being
// written nor what only has a similar name.
func TestSweep(t *testing.T) {
	if !locks {
		t.Skip("no locks, so nothing is swept")
	}
	dir := t.TempDir()
	other := []string{".unfinished-symphony", ".unfinished-0123", "unfinished-0123456789abcdef"}
	for _, name := range append(other, newName()) {
		write(t, filepath.Join(dir, name), "")
	}
	testkit.NoError(t, os.Symlink(other[0], filepath.Join(dir, ".unfinished-00000000000000ff")))
	testkit.NoError(t, os.MkdirAll(filepath.Join(dir, newName(), "below"), 0o700))
	err := WriteDir(filepath.Join(dir, "outer"), func(own string) error {
		err := Write(filepath.Join(dir, "between"), func(io.Writer) error {
			return WriteDir(filepath.Join(dir, "inner"), filled("inner"))
		})
		return errors.Join(err, filled("outer")(own))
	})
	testkit.NoError(t, err)
	testkit.Equal(t, len(testkit.Must(os.ReadDir(dir))(t)), len(other)+1+3, "files and directories: the link, and what was written, too")
	for _, name := range []string{"outer", "inner"} {
		testkit.Equal(t, string(testkit.Must(os.ReadFile(filepath.Join(dir, name, "file")))(t)), name)
	}
}

// A directory that is to be replaced is there, or comes back at the next writing, wherever the
// writer fails or is killed.
func TestReplacedDir(t *testing.T) {
	name := filepath.Join(t.TempDir(), "it")
	sees := func(want string) {
		t.Helper()
		testkit.NoError(t, CheckWritable(filepath.Join(filepath.Dir(name), "any")))
		has(t, filepath.Join(name, "file"), want)
		nothingLeft(t, filepath.Dir(name))
	}
	testkit.NoError(t, WriteDir(name, filled("old")))
	testkit.Fails(t, WriteDir(name, os.RemoveAll), name+": no such file or directory") // what is to be renamed is gone
	sees("old")
	if !locks {
		t.Skip("no locks, so nothing is swept")
	}
	aside := filepath.Join(filepath.Dir(name), newName()+"-it")
	testkit.NoError(t, os.Rename(name, aside)) // killed between two renamings
	sees("old")
	testkit.NoError(t, errors.Join(WriteDir(aside, filled("old")), WriteDir(name, filled("new")))) // and after both
	sees("new")
}

// A file that is opened to add to it has its name, also if it is replaced meanwhile.
func TestAppendBesideReplacing(t *testing.T) {
	if !locks {
		t.Skip("no locks")
	}
	name := filepath.Join(t.TempDir(), "records")
	open := func() *os.File {
		for {
			f, err := OpenAppend(name, ten)
			if !errors.Is(err, ErrInUse) {
				testkit.NoError(t, err)
				return f
			}
		}
	}
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for range 1000 {
			f := open()
			err := errors.Join(os.WriteFile(name+".new", nil, 0o600), os.Rename(name+".new", name), f.Close())
			testkit.Equal(t, err, nil)
		}
	})
	defer replacing.Wait()
	for range 1000 {
		f := open()
		if !names(f, name) {
			t.Error("it adds to a file that is no more")
		}
		f.Close()
	}
}

// A directory, or a file that is added to, is locked for one at a time.
func TestLocks(t *testing.T) {
	if !locks {
		t.Skip("no locks")
	}
	dir := t.TempDir()
	for name, lock := range map[string]func(name string) (func(), error){
		dir: LockDir,
		filepath.Join(dir, "records"): func(name string) (func(), error) {
			f, err := OpenAppend(name, ten)
			return func() { f.Close() }, err
		},
	} {
		for range 2 {
			unlock := testkit.Must(lock(name))(t)
			_, err := lock(name)
			testkit.Is(t, err, ErrInUse)
			testkit.Equal(t, fmt.Sprint(err), name+": another process adds to it")
			unlock()
		}
	}
	_, err := LockDir(filepath.Join(dir, "missing"))
	testkit.Is(t, err, fs.ErrNotExist)
}

// A directory is made also while others, below the same parent, come and go with the
// parent.
func TestMakeDirBesideRemoval(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "parent")
	stop := make(chan struct{})
	var removing sync.WaitGroup
	removing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.Remove(parent) // which fails while there is something in it
			}
		}
	})
	defer removing.Wait()
	defer close(stop)
	for range 300 {
		name := filepath.Join(parent, "one", "two")
		testkit.NoError(t, MakeDir(name))
		testkit.NoError(t, os.RemoveAll(filepath.Dir(name)))
	}
}
