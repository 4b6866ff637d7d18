package files

import (
	"os"
	"path/filepath"
	"testing"
)

// A growing file has every piece as soon as it is written, and an interrupted
// writer leaves those that it has written.
func TestGrow(t *testing.T) {
	dir := t.TempDir()
	name, link := filepath.Join(dir, "log"), filepath.Join(dir, "link")
	write(t, name, "of an earlier run, and longer")
	if err := os.Symlink("log", link); err != nil {
		t.Fatal(err)
	}
	g, err := Grow(link)
	if err != nil {
		t.Fatal(err)
	}
	has(t, name, "")
	for _, piece := range []struct{ add, want string }{{"one\n", "one\n"}, {"two\n", "one\ntwo\n"}} {
		if _, err := g.Write([]byte(piece.add)); err != nil {
			t.Fatal(err)
		}
		has(t, name, piece.want)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Write(nil); err == nil || err.Error() != link+": file already closed" {
		t.Errorf("after Close: %v", err)
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v now, %v", st, err)
	}
	for name, want := range map[string]string{
		dir:                              "is a directory, want the name of a file",
		filepath.Join(dir, "no", "file"): "no such file or directory",
		filepath.Join(name, "beneath"):   "not a directory",
	} {
		if _, err := Grow(name); err == nil || err.Error() != name+": "+want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
