package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// filled returns a function that fills a directory with a file.
func filled(content string) func(dir string) error {
	return func(dir string) error { return Write(filepath.Join(dir, "file"), text(content)) }
}

func TestWriteDirIsAllOrNothing(t *testing.T) {
	name := filepath.Join(t.TempDir(), "dir")
	for _, content := range []string{"one", "another"} {
		if err := WriteDir(name, filled(content)); err != nil {
			t.Fatal(err)
		}
		has(t, filepath.Join(name, "file"), content)
		nothingLeft(t, filepath.Dir(name))
	}
	boom := errors.New("no more")
	err := WriteDir(name, func(dir string) error {
		has(t, filepath.Join(name, "file"), "another") // it can be read until the end
		if err := filled("half")(dir); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != name+": no more" {
		t.Errorf("error %v", err)
	}
	has(t, filepath.Join(name, "file"), "another")
	nothingLeft(t, filepath.Dir(name))

	if err := RemoveDir(name); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Dir(name)); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	if err := RemoveDir(name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestWriteDirFailures(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "here")
	for name, want := range map[string]string{
		filepath.Join(dir, "no", "dir"):   "no such file or directory",
		filepath.Join(dir, "file", "dir"): "not a directory",
	} {
		err := WriteDir(name, filled("x"))
		if err == nil || err.Error() != name+": "+want {
			t.Errorf("%v, want %s", err, want)
		}
		if !strings.Contains(name, "no") { // which MakeDir makes
			if err := MakeDir(name); err == nil || err.Error() != name+": "+want {
				t.Errorf("%v, want %s", err, want)
			}
		}
	}
	has(t, filepath.Join(dir, "file"), "here")
}

// What killed writers have left goes at the next writing, and nothing of a living one.
func TestUnfinishedDirectoriesAreSwept(t *testing.T) {
	if !locks {
		t.Skip("no locks, so nothing is swept")
	}
	dir := t.TempDir()
	dead := filepath.Join(dir, newName())
	if err := os.MkdirAll(filepath.Join(dead, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := WriteDir(filepath.Join(dir, "outer"), func(own string) error {
		if err := WriteDir(filepath.Join(dir, "inner"), filled("inner")); err != nil { // which sweeps, too
			return err
		}
		return filled("outer")(own)
	})
	if err != nil {
		t.Fatal(err)
	}
	nothingLeft(t, dir)
	has(t, filepath.Join(dir, "outer", "file"), "outer")
	has(t, filepath.Join(dir, "inner", "file"), "inner")
}

func TestLockDir(t *testing.T) {
	if !locks {
		t.Skip("no locks")
	}
	dir := t.TempDir()
	unlock, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LockDir(dir); !errors.Is(err, ErrInUse) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if unlock, err = LockDir(dir); err != nil {
		t.Error(err)
	} else {
		unlock()
	}
	if _, err := LockDir(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing one: %v", err)
	}
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
		if err := MakeDir(name); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(filepath.Dir(name)); err != nil {
			t.Fatal(err)
		}
	}
}
