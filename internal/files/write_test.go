package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// text returns a write function for s.
func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// has checks a file's content, and that there is no unfinished file beside it.
func has(t *testing.T, name, want string) {
	t.Helper()
	testkit.Equal(t, string(testkit.Must(os.ReadFile(name))(t)), want, "%s", name)
	nothingLeft(t, filepath.Dir(name))
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	testkit.EqualAll(t, testkit.Must(filepath.Glob(filepath.Join(dir, ".unfinished-*")))(t), nil, "left over")
}

func write(t *testing.T, name, content string) {
	t.Helper()
	testkit.NoError(t, os.WriteFile(name, []byte(content), 0o600))
}

// A file, and a directory of one, is replaced whole or not at all.
func TestAllOrNothing(t *testing.T) {
	boom := errors.New("no more")
	for below, put := range map[string]func(name, content string, end func() error) error{
		"": func(name, content string, end func() error) error {
			return Write(name, func(w io.Writer) error { return errors.Join(text(content)(w), end()) })
		},
		"file": func(name, content string, end func() error) error {
			return WriteDir(name, func(dir string) error { return errors.Join(filled(content)(dir), end()) })
		},
	} {
		name := filepath.Join(t.TempDir(), "it")
		file, before := filepath.Join(name, below), strings.Repeat("a second, longer ", 10000)
		for _, content := range []string{"one", before} {
			testkit.NoError(t, put(name, content, func() error { return nil }))
			has(t, file, content)
			nothingLeft(t, filepath.Dir(name))
		}
		err := put(name, strings.Repeat("x", 1<<20), func() error {
			if now, _ := os.ReadFile(file); string(now) != before { // it can be read until the end
				t.Errorf("%s changes while it is written", file)
			}
			return boom
		})
		testkit.Is(t, err, boom)
		testkit.Equal(t, fmt.Sprint(err), name+": no more")
		has(t, file, before)
		nothingLeft(t, filepath.Dir(name))
	}
}

func TestWriteFailures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	write(t, file, "here")
	loop := filepath.Join(dir, "loop")
	testkit.NoError(t, os.Symlink("loop", loop))
	for name, want := range map[string]string{
		dir:                                "is a directory, want the name of a file",
		dir + "/":                          "is a directory, want the name of a file",
		dir + "/..":                        "is a directory, want the name of a file",
		filepath.Join(dir, "no", "file"):   "no such file or directory",
		filepath.Join(file, "below"):       "not a directory",
		loop:                               "too many levels of symbolic links",
		"":                                 "no such file or directory",
		filepath.Join(dir, "a\nb", "file"): "no such file or directory",
	} {
		errs := map[string]error{"Write": Write(name, text("x"))}
		if name != "" { // no file is wanted
			errs["CheckWritable"] = CheckWritable(name)
		}
		if !strings.HasPrefix(want, "is a") && name != loop && name != "" {
			errs["WriteDir"] = WriteDir(name, filled("x"))
		}
		if want == "not a directory" {
			errs["MakeDir"] = MakeDir(name)
		}
		for what, err := range errs {
			var e *Error
			if !errors.As(err, &e) || e.Name != name || !strings.HasSuffix(err.Error(), ": "+want) || strings.ContainsAny(err.Error(), "\n\r") ||
				!strings.HasPrefix(err.Error(), Printable(name)+": ") || strings.Contains(err.Error(), "unfinished") {
				t.Errorf("%s(%q): error %v, want %s", what, name, err, want)
			}
		}
	}
	has(t, file, "here")
	testkit.Equal(t, CheckWritable(""), nil, "no file is wanted")
}

// A link stays a link, and its target is written, whether it exists or not.
func TestWriteFollowsLinks(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	testkit.NoError(t, os.MkdirAll(filepath.Join(real, "deeper"), 0o755))
	links := map[string]string{ // name: target as the link stores it
		"absolute":      filepath.Join(real, "one"),
		"relative":      "real/two",
		"dangling":      "real/three",
		"chain":         "relative",
		"folder":        "real/deeper",
		"folder/up":     "../four", // real/four, not four
		"folder/onward": "../../chain",
	}
	for _, name := range []string{"absolute", "relative", "dangling", "chain", "folder", "folder/up", "folder/onward"} {
		testkit.NoError(t, os.Symlink(links[name], filepath.Join(dir, name)))
	}
	write(t, filepath.Join(real, "one"), "before")
	write(t, filepath.Join(real, "two"), "before")
	for name, leadsTo := range map[string]string{
		"absolute": "one", "relative": "two", "dangling": "three", "chain": "two",
		"folder/up": "four", "folder/onward": "two", "folder/new": "deeper/new", "folder/../five": "five",
	} {
		link := dir + "/" + name // not cleaned
		testkit.Equal(t, CheckWritable(link), nil)
		testkit.NoError(t, Write(link, text(name)))
		has(t, filepath.Join(real, leadsTo), name)
		if said, err := os.Readlink(link); links[name] != "" && (err != nil || said != links[name]) {
			t.Errorf("link %s is now %q, %v", name, said, err)
		}
	}
	testkit.NoError(t, os.Symlink("nowhere/file", filepath.Join(dir, "lost")))
	testkit.Is(t, Write(filepath.Join(dir, "lost"), text("")), fs.ErrNotExist)
}

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
	abs := testkit.Must(filepath.Abs("one"))(t)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"one", "one", true}, {"one", "./one", true}, {"one", "dir/../one", true}, {"one", abs, true}, {"one", "link", true},
		{"dir/x", "way/x", true}, {"there", "hard", true}, {"there", "./there", true},
		{"one", "two", false}, {"one", "dir/one", false}, {"there", "other", false}, {"there", "one", false},
		{"loop", "loop", false}, {"", "", false}, {"no/x", "no/x", false}, // cannot be written in any case
	} {
		testkit.Equal(t, Same(c.a, c.b), c.want, "%q and %q", c.a, c.b)
	}
}
