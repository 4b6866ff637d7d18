package files

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"gpipebench/internal/testkit"
)

var ten = Kind{"a spec", 10}

func TestReadLimits(t *testing.T) {
	dir := t.TempDir()
	at, above, sparse := filepath.Join(dir, "at"), filepath.Join(dir, "above"), filepath.Join(dir, "sparse")
	write(t, at, "0123456789")
	write(t, above, "0123456789a")
	write(t, sparse, "")
	testkit.NoError(t, os.Truncate(sparse, 1<<42))
	testkit.Equal(t, string(testkit.Must(Read(at, ten))(t)), "0123456789", "at the limit")
	for name, want := range map[string]string{
		above:                     "11 bytes, want a spec of up to 10 bytes",
		sparse:                    "4398046511104 bytes, want a spec of up to 10 bytes",
		dir:                       "is a directory, want a spec of up to 10 bytes",
		dir + "/":                 "is a directory, want a spec of up to 10 bytes",
		filepath.Join(dir, "no"):  "no such file or directory",
		filepath.Join(at, "down"): "not a directory",
		"":                        "no such file or directory",
	} {
		_, err := Read(name, ten)
		var e *Error
		if !errors.As(err, &e) || e.Name != name || err.Error() != Printable(name)+": "+want {
			t.Errorf("Read(%q): error %v, want %s", name, err, want)
		}
		_, _, err = OpenRegular(name, ten)
		testkit.FailsFirst(t, err, Printable(name)+": "+strings.Split(want, ",")[0])
	}
	_, err := Read(filepath.Join(dir, "no"), ten)
	testkit.Is(t, err, fs.ErrNotExist)
	f, size, err := OpenRegular(at, ten)
	testkit.NoError(t, err)
	testkit.Equal(t, size, 10, "bytes")
	f.Close()
}

// From a reader of unknown size ReadAll returns everything, and the reader's
// error.
func TestReadAll(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 100_000, 1 << 20} {
		want := bytes.Repeat([]byte("abc"), n)[:n]
		for _, size := range []int64{0, int64(n) - 1, int64(n), int64(n) + 1, 5} {
			got, err := ReadAll(iotest.HalfReader(bytes.NewReader(want)), max(size, 0))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes of %d, expected %d: %v", len(got), n, size, err)
			}
		}
		for _, broken := range []error{io.ErrUnexpectedEOF, errors.New("broken")} {
			got, err := ReadAll(io.MultiReader(bytes.NewReader(want), iotest.ErrReader(broken)), 0)
			if err != broken || !bytes.Equal(got, want) {
				t.Fatalf("%d bytes and %v, want %d and %v", len(got), err, n, broken)
			}
		}
	}
	// Memory for a known size, and not for twice as much.
	text := make([]byte, 1<<20)
	if got, _ := ReadAll(bytes.NewReader(text), 1<<20); cap(got) > 1<<20+1<<16 {
		t.Errorf("room for %d bytes", cap(got))
	}
}

// The lines of a text are the pieces between its newlines.
func FuzzReadLine(f *testing.F) {
	for _, text := range []string{"", "\n", "a", "a\nbb\n", "0123456789\n", "01234567890123456\n\nrest", "012345678901234567\n", "01234567890123456789"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		const most = 18 // larger than the buffer
		in := bufio.NewReaderSize(strings.NewReader(text), 16)
		for want := range strings.Lines(text) {
			line, err := ReadLine(in, most)
			if len(want) > most {
				if err != ErrLongLine {
					t.Fatalf("%q: %q, %v", text, line, err)
				}
				return
			}
			if string(line) != want || (err == io.EOF) != !strings.HasSuffix(want, "\n") {
				t.Fatalf("%q: %q, %v, want %q", text, line, err, want)
			}
		}
		if line, err := ReadLine(in, most); len(line) > 0 || err != io.EOF {
			t.Fatalf("%q: %q after the end, %v", text, line, err)
		}
	})
}
