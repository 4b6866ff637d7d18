package files

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// A growing file has every piece as soon as it is written, and an interrupted
// writer leaves those that it has written.
func TestGrow(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "log"), filepath.Join(dir, "link")
	write(t, name, "of an earlier run, and longer")
	testkit.NoError(t, os.Symlink("log", link))
	g, _, err := Grow(link, nil)
	testkit.NoError(t, err)
	has(t, name, "")
	if _, _, err := Grow(name, nil); locks {
		testkit.Is(t, err, ErrInUse)
	}
	for _, piece := range []struct{ add, want string }{{"one\n", "one\n"}, {"two\n", "one\ntwo\n"}} {
		testkit.Must(g.Write([]byte(piece.add)))(t)
		has(t, name, piece.want)
	}
	testkit.NoError(t, g.Close())
	_, err = g.Write(nil)
	testkit.Equal(t, fmt.Sprint(err), link+": file already closed")
	testkit.Equal(t, testkit.Must(os.Lstat(link))(t).Mode().Type(), fs.ModeSymlink, "the link")
	for name, want := range map[string]string{
		dir:                              "is a directory, want the name of a file",
		filepath.Join(dir, "no", "file"): "no such file or directory",
		filepath.Join(name, "beneath"):   "not a directory",
	} {
		_, _, err := Grow(name, nil)
		testkit.Equal(t, fmt.Sprint(err), name+": "+want)
	}
}

// A file that grows again keeps its first lines, whole ones only, and drops the rest.
func TestGrowOn(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	no := func(string) bool { return false }
	notThree := func(line string) bool { return line != "three\n" }
	for _, c := range []struct {
		before string
		keep   func(line string) bool
		want   string
		kept   bool
	}{
		{"one\ntwo\nthree\nfour\n", notThree, "one\ntwo\n", true},
		{"one\ntwo\nfo", notThree, "one\ntwo\n", true},
		{"one\ntwo\n", notThree, "one\ntwo\n", true},
		{"one\n", no, "", false},
		{"one", notThree, "", false},
		{"one\n" + strings.Repeat("x", longestKept) + "\ntwo\n", notThree, "one\n", true},
		{"", notThree, "", false},
	} {
		write(t, name, c.before)
		g, kept, err := Grow(name, func(_ int64, line []byte) bool { return c.keep(string(line)) })
		if err != nil || kept != c.kept {
			t.Fatalf("%.40q: kept %v, %v", c.before, kept, err)
		}
		testkit.Must(g.Write([]byte("new\n")))(t)
		testkit.NoError(t, g.Close())
		has(t, name, c.want+"new\n")
	}
	g, kept, err := Grow(filepath.Join(filepath.Dir(name), "new"), func(int64, []byte) bool { return true })
	if err != nil || kept {
		t.Fatal(kept, err)
	}
	testkit.NoError(t, g.Close())
}
