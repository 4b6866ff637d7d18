package files

import (
	"os"
	"path/filepath"
	"testing"
)

func TestSame(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{
		os.Mkdir("dir", 0o700), os.Symlink("dir", "way"), os.Symlink("one", "link"), os.Symlink("loop", "loop"),
		os.WriteFile("there", nil, 0o600), os.Link("there", "hard"), os.WriteFile("other", nil, 0o600),
	} {
		if err != nil {
			t.Skip(err) // a system without links
		}
	}
	abs, err := filepath.Abs("one")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"one", "one", true}, {"one", "./one", true}, {"one", "dir/../one", true}, {"one", abs, true}, {"one", "link", true},
		{"dir/x", "way/x", true}, {"there", "hard", true}, {"there", "./there", true},
		{"one", "two", false}, {"one", "dir/one", false}, {"there", "other", false}, {"there", "one", false},
		{"loop", "loop", false}, {"", "", false}, {"no/x", "no/x", false}, // cannot be written in any case
	} {
		if got := Same(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
}
