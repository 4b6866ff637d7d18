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

// fifo is a named pipe, whose other end may come late, as a machine may be busy.
func fifo(t *testing.T) string {
	t.Helper()
	waitForPipes(t, time.Minute)
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func waitForPipes(t *testing.T, d time.Duration) {
	before := pipeWait
	t.Cleanup(func() { pipeWait = before })
	pipeWait = d
}

// A file that is not regular keeps its kind.
func TestWriteToPipe(t *testing.T) {
	name := fifo(t)
	if err := CheckWritable(name); err != nil {
		t.Error(err)
	}
	got := make(chan string, 1)
	go func() {
		b, _ := os.ReadFile(name)
		got <- string(b)
	}()
	if err := Write(name, text("through the pipe")); err != nil {
		t.Fatal(err)
	}
	if s := <-got; s != "through the pipe" {
		t.Errorf("came out: %q", s)
	}
	st, err := os.Lstat(name)
	if err != nil || st.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("it is %v now, %v", st.Mode(), err)
	}
	nothingLeft(t, filepath.Dir(name))
}

// A pipe without a process at the other end is an error after a while.
func TestPipeWithoutOtherEnd(t *testing.T) {
	name := fifo(t)
	waitForPipes(t, 20*time.Millisecond)
	for want, err := range map[string]error{
		name + ": a pipe that no process reads from":                               Write(name, text("x")),
		name + ": a pipe that no process writes to, want a spec of up to 10 bytes": func() error { _, err := Read(name, Kind{"a spec", 10}); return err }(),
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A device that the test makes itself, if it is permitted: its own null.
func TestWriteToDevice(t *testing.T) {
	name := filepath.Join(t.TempDir(), "null")
	if err := syscall.Mknod(name, syscall.S_IFCHR|0o600, 1<<8|3); err != nil {
		t.Logf("no device can be made here: %v", err)
		return
	}
	if err := errors.Join(CheckWritable(name), Write(name, text("x"))); err != nil && !errors.Is(err, syscall.EACCES) && !errors.Is(err, syscall.EPERM) {
		t.Error(err)
	}
	if st, err := os.Lstat(name); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		t.Errorf("it is %v now, %v", st.Mode(), err)
	}
}

// A pipe is read once, up to the limit.
func TestReadFromPipe(t *testing.T) {
	for content, want := range map[string]string{"0123456789": "", "0123456789a": "more than 10 bytes, want a spec of up to 10 bytes", strings.Repeat("x", 1<<20): "more than 10 bytes, want a spec of up to 10 bytes"} {
		named := fifo(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			w.WriteString(content)
			w.Close()
		}()
		go func() {
			time.Sleep(20 * time.Millisecond) // the data may come later than the reader
			if f, err := os.OpenFile(named, os.O_WRONLY, 0); err == nil {
				f.WriteString(content)
				f.Close()
			}
		}()
		for _, name := range []string{named, fmt.Sprintf("/dev/fd/%d", r.Fd())} {
			got, err := Read(name, ten)
			if want == "" && (err != nil || string(got) != content) || want != "" && (err == nil || err.Error() != name+": "+want) {
				t.Errorf("%d bytes in %s: %q, error %v, want %q", len(content), name, got, err, want)
			}
			if _, _, err := OpenRegular(name, ten); err == nil || !strings.Contains(err.Error(), "is a pipe, want a regular file") {
				t.Errorf("OpenRegular(%s): %v", name, err)
			}
		}
		r.Close()
	}
}

// A device may never end: none is read.
func TestReadFromDevice(t *testing.T) {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip("no /dev/zero here")
	}
	defer zero.Close()
	link := filepath.Join(t.TempDir(), "spec.yaml")
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dev/zero", link, fmt.Sprintf("/dev/fd/%d", zero.Fd())} {
		if _, err := Read(name, ten); err == nil || err.Error() != name+": is a device, want a spec of up to 10 bytes" {
			t.Errorf("error %v", err)
		}
	}
}

// A descriptor is written to at its position, whether it is a file, a pipe or a
// socket.
func TestWriteToDescriptor(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	name := fmt.Sprintf("/dev/fd/%d", f.Fd())
	if _, err := os.Stat(name); err != nil {
		t.Skip("no /dev/fd here")
	}
	io.WriteString(f, "before, ")
	if err := errors.Join(CheckWritable(name), Write(name, text("by name"))); err != nil {
		t.Fatal(err)
	}
	io.WriteString(f, ", after")
	has(t, f.Name(), "before, by name, after")

	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(pair[1])
	if err := Write(fmt.Sprintf("/dev/fd/%d", pair[0]), text("socket")); err != nil {
		t.Error(err)
	}
	syscall.Close(pair[0])
	b := make([]byte, 10)
	if n, err := syscall.Read(pair[1], b); string(b[:max(n, 0)]) != "socket" {
		t.Errorf("came out: %q, %v", b, err)
	}
	if err := Write(fmt.Sprintf("/dev/fd/%d", 1<<20), text("")); err == nil || strings.Contains(err.Error(), "proc") {
		t.Errorf("a descriptor that is not open: %v", err)
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
	pipe := fifo(t)
	if _, err := OpenAppend(pipe, Kind{"records", 10}); err == nil || err.Error() != pipe+": is a pipe, want a regular file: records of up to 10 bytes" {
		t.Errorf("a pipe: %v", err)
	}
}
