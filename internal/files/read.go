package files

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
)

// Kind is the kind of content as which a file is read.
type Kind struct {
	What  string // for messages: "a spec"
	Bytes int64  // maximum size; math.MaxInt64: no limit, for files that are read in parts
}

func (k Kind) String() string {
	if k.Bytes == math.MaxInt64 {
		return k.What
	}
	return k.What + " of up to " + Size(k.Bytes)
}

// Read returns the content of a file, or what is left of the standard input.
func Read(name string, k Kind) ([]byte, error) {
	r, err := Open(name, k)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return ReadAll(r, r.Size)
}

// Reader reads a file up to the maximum size of its kind.
type Reader struct {
	Size int64 // of a regular file; 0: unknown

	file io.ReadCloser
	name string
	kind Kind
	left int64 // bytes that may still be read
}

// Open opens a regular file, or for the names - and /dev/stdin the standard
// input, which stays open. Any other kind of file, and one that is too large, is
// an error.
func Open(name string, k Kind) (*Reader, error) {
	if name == "-" || name == "/dev/stdin" {
		return &Reader{file: io.NopCloser(os.Stdin), name: name, kind: k, left: k.Bytes}, nil
	}
	f, size, err := OpenRegular(name, k)
	if err != nil {
		return nil, err
	}
	return &Reader{Size: size, file: f, name: name, kind: k, left: k.Bytes}, nil
}

func (r *Reader) Read(p []byte) (int, error) {
	// One byte more than allowed distinguishes a file that is too long from one
	// that fits.
	if int64(len(p)) > r.left+1 {
		p = p[:r.left+1]
	}
	n, err := r.file.Read(p)
	if int64(n) > r.left {
		return 0, named(r.name, fmt.Errorf("more than %d bytes, want %v", r.kind.Bytes, r.kind))
	}
	r.left -= int64(n)
	if err != nil && err != io.EOF {
		err = named(r.name, err)
	}
	return n, err
}

func (r *Reader) Close() error { return r.file.Close() }

// OpenRegular opens a regular file, to be read in parts or more than once, and
// returns its size.
func OpenRegular(name string, k Kind) (*os.File, int64, error) {
	f, size, err := openRegular(name, os.O_RDONLY, k)
	return f, size, named(name, err)
}

func openRegular(name string, flag int, k Kind) (*os.File, int64, error) {
	// Before it is opened: that waits for the other end of a pipe.
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s, want %v", kindOf(st.Mode()), k)
	}
	f, err := os.OpenFile(name, flag, 0o666)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && st.Size() > k.Bytes {
		err = fmt.Errorf("%d bytes, want %v", st.Size(), k)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}

// ReadAll reads r to its end. With the size that is expected it allocates memory
// for that, not for twice as much; 0: it is unknown. With an error it also returns
// the bytes before it.
func ReadAll(r io.Reader, size int64) ([]byte, error) {
	var all bytes.Buffer
	all.Grow(int(size) + bytes.MinRead) // so that it finds the end without growing
	_, err := all.ReadFrom(r)
	return all.Bytes(), err
}

// ErrLongLine reports a line above the maximum length.
var ErrLongLine = errors.New("line too long")

// ReadLine reads a line of at most most bytes, including its newline. Like
// ReadBytes of bufio, it returns the bytes after the last newline with io.EOF.
func ReadLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(part) > most-len(line) {
			return nil, ErrLongLine
		}
		if line = append(line, part...); err != bufio.ErrBufferFull {
			return line, err
		}
	}
}
