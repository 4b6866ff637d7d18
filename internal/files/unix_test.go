//go:build unix && !solaris && !aix

package files

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The permissions are those of any new file, or of the file that is replaced.
func TestWriteKeepsModes(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o027))
	name := filepath.Join(t.TempDir(), "file")
	for _, want := range []os.FileMode{0o640, 0o600, 0o755, 0o666} {
		if want != 0o640 { // the umask's
			if err := os.Chmod(name, want); err != nil {
				t.Fatal(err)
			}
		}
		if err := Write(name, text("x")); err != nil {
			t.Fatal(err)
		}
		if st, err := os.Stat(name); err != nil || st.Mode() != want {
			t.Errorf("%v, %v, want %v", st.Mode(), err, want)
		}
	}
}

// A pipe may wait for ever, and a device may never end: each is refused in one line, neither
// read nor written nor replaced.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink("pipe", link)); err != nil {
		t.Fatal(err)
	}
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
		_, err = Grow(name)
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
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				w.WriteString(content)
				w.Close()
			}()
			os.Stdin = r
			got, err := Read(name, ten)
			if want == "" && (err != nil || string(got) != content) || want != "" && (err == nil || err.Error() != want) {
				t.Errorf("%d bytes in %s: %q, error %v, want %q", len(content), name, got, err, want)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

const unfinishedDir = "GPIPEBENCH_TEST_UNFINISHED_DIR"

// TestUnfinishedChild is the process that TestSweep kills while it writes.
func TestUnfinishedChild(t *testing.T) {
	dir := os.Getenv(unfinishedDir)
	if dir == "" {
		t.Skip("runs only as the child of another test")
	}
	_ = Write(filepath.Join(dir, "killed"), func(io.Writer) error {
		fmt.Println("writing")
		time.Sleep(time.Hour)
		return nil
	})
}

// The unfinished file of a killed process is removed by the next writing in its
// directory, and nothing else is: neither a file that a living process is
// writing, in this process or another, nor one that only has a similar name.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0], "-test.run=^TestUnfinishedChild$")
	child.Env = append(os.Environ(), unfinishedDir+"="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(out); lines.Scan() && lines.Text() != "writing"; {
	}
	other := []string{".unfinished-symphony", ".unfinished-0123", "unfinished-0123456789abcdef"}
	for _, name := range other {
		write(t, filepath.Join(dir, name), "")
	}
	if err := os.Symlink(other[0], filepath.Join(dir, ".unfinished-00000000000000ff")); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	own := filepath.Join(dir, "own")
	if err := Write(own, func(io.Writer) error {
		if err := Write(filepath.Join(dir, "inner"), text("x")); err != nil {
			return err
		}
		if n := count(); n != len(other)+1+3 { // the link, the child's, ours, inner
			t.Errorf("%d files while two are being written", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	if err := CheckWritable(own); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != len(other)+1+2 {
		t.Errorf("%d files after the writer was killed", n)
	}
}

// Concurrent writers in one directory do not remove each other's files.
func TestWritersAtOnce(t *testing.T) {
	dir := t.TempDir()
	var g sync.WaitGroup
	for i := range 8 {
		g.Go(func() {
			for j := range 20 {
				if err := Write(filepath.Join(dir, fmt.Sprint(i, j%3)), text("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	g.Wait()
	nothingLeft(t, dir)
}

func TestOpenAppend(t *testing.T) {
	name := filepath.Join(t.TempDir(), "records")
	f, err := OpenAppend(name, Kind{"records", 10})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenAppend(name, Kind{"records", 10}); !errors.Is(err, ErrInUse) || err.Error() != name+": another process adds to it" {
		t.Errorf("a second time: %v", err)
	}
	f.Close()
	if f, err = OpenAppend(name, Kind{"records", 10}); err != nil {
		t.Fatal(err)
	}
	f.Close()
}
