//go:build unix && !solaris && !aix

package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"gpipebench/internal/testkit"
)

// A pipe may wait for ever, and a device may never end: each is refused in one line, neither
// read nor written nor replaced.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	testkit.NoError(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("pipe", link)))
	descriptor := fmt.Sprintf("/dev/fd/%d", os.Stdout.Fd())
	for name, is := range map[string]string{pipe: "is a pipe", link: "is a pipe", os.DevNull: "is a device", "/dev/stdout": "is a ", descriptor: "is a "} {
		before, err := os.Lstat(name)
		if err != nil {
			t.Logf("not here: %v", err)
			continue
		}
		fails := func(err error, want string) {
			t.Helper()
			if err == nil || !strings.HasPrefix(err.Error(), name+": ") || !strings.Contains(err.Error(), is) || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: %v, want %s ... %s", name, err, is, want)
			}
		}
		fails(Write(name, text("x")), "want the name of a file")
		fails(CheckWritable(name), "want the name of a file")
		_, _, err = Grow(name, nil)
		fails(err, "want the name of a file")
		if is != "is a " { // standard output may be a regular file, which can be read
			_, err = Read(name, ten)
			fails(err, "want a spec of up to 10 bytes")
			_, _, err = OpenRegular(name, ten)
			fails(err, "want a spec of up to 10 bytes")
			_, err = OpenAppend(name, ten)
			fails(err, "want a spec of up to 10 bytes")
		}
		if now, err := os.Lstat(name); err != nil || now.Mode() != before.Mode() {
			t.Errorf("%s is %v now, %v", name, now.Mode(), err)
		}
	}
	nothingLeft(t, dir)
}

// The standard input is read once, up to the limit, and stays open.
func TestReadStandardInput(t *testing.T) {
	defer func(before *os.File) { os.Stdin = before }(os.Stdin)
	for _, name := range []string{"-", "/dev/stdin"} {
		for content, want := range map[string]string{"0123456789": "", "0123456789a": name + ": more than 10 bytes, want a spec of up to 10 bytes"} {
			r, w, err := os.Pipe()
			testkit.NoError(t, err)
			go func() {
				w.WriteString(content)
				w.Close()
			}()
			os.Stdin = r
			got, err := Read(name, ten)
			if want == "" && (err != nil || string(got) != content) || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%d bytes in %s: %q, error %v, want %q", len(content), name, got, err, want)
			}
			testkit.Equal(t, r.Close(), nil)
		}
	}
}

// Concurrent writers in one directory do not remove each other's files.
func TestWritersAtOnce(t *testing.T) {
	dir := t.TempDir()
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 20 {
				testkit.Equal(t, Write(filepath.Join(dir, fmt.Sprint(i, j%3)), text("x")), nil)
			}
		})
	}
	g.Wait()
	nothingLeft(t, dir)
}
