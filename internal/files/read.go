package files

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"

	"golang.org/x/term"
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

// Read returns the content of a file. The file is read once, from its beginning
// or, for a descriptor, from its current position.
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

	file *os.File
	name string
	kind Kind
	left int64 // bytes that may still be read
}

// Open opens a regular file, a pipe or, by the name of a descriptor such as
// /dev/stdin, anything except a device that is not a terminal. A named pipe
// without a writer, any other kind of file and a file that is too large are
// errors.
func Open(name string, k Kind) (*Reader, error) {
	f, size, err := openRead(name, k)
	if err != nil {
		return nil, named(name, err)
	}
	return &Reader{Size: size, file: f, name: name, kind: k, left: k.Bytes}, nil
}

func openRead(name string, k Kind) (*os.File, int64, error) {
	f, err := openAny(name, k)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case st.Mode().IsRegular():
		if st.Size() <= k.Bytes {
			return f, st.Size(), nil
		}
		err = fmt.Errorf("%d bytes, want %v", st.Size(), k)
	case st.IsDir(), st.Mode()&fs.ModeDevice != 0 && !term.IsTerminal(int(f.Fd())):
		err = fmt.Errorf("%s, want %v", kindOf(st.Mode()), k)
	default:
		return f, 0, nil
	}
	f.Close()
	return nil, 0, err
}

// openAny opens a file if that has no side effects: never a device.
func openAny(name string, k Kind) (*os.File, error) {
	path, err := target(name)
	if err == errNoFile {
		path, err = name, nil
	}
	if err != nil {
		return nil, err
	}
	if fd, own := descriptor(path); own {
		return duplicate(fd, path)
	}
	st, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case st.Mode()&fs.ModeNamedPipe != 0:
		f, err := openPipe(path, os.O_RDONLY)
		if err == nil || errors.Is(err, fs.ErrPermission) {
			return f, err
		}
		return nil, fmt.Errorf("%w, want %v", err, k)
	case !st.Mode().IsRegular():
		return nil, fmt.Errorf("%s, want %v", kindOf(st.Mode()), k)
	}
	return os.Open(path)
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

// OpenRegular opens a regular file, to be read in parts or more than once.
func OpenRegular(name string, k Kind) (*os.File, int64, error) {
	if err := regular(name, k); err != nil {
		return nil, 0, named(name, err)
	}
	f, size, err := openRead(name, k)
	return f, size, named(name, err)
}

// regular returns why a name is not that of a regular file of kind k, or nil.
func regular(name string, k Kind) error {
	st, err := os.Stat(name)
	switch {
	case err != nil:
		return nil // opening it reports the error
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s, want a regular file: %v", kindOf(st.Mode()), k)
	case st.Size() > k.Bytes:
		return fmt.Errorf("%d bytes, want %v", st.Size(), k)
	}
	return nil
}

// ReadAll reads r to its end with memory for about the given size, not for
// twice as much. Size 0 means that it is unknown. With an error it also returns
// the bytes before it.
func ReadAll(r io.Reader, size int64) ([]byte, error) {
	var full [][]byte
	part := make([]byte, 0, max(size+1, 4<<10)) // one byte more, to reach the end
	for {
		n, err := r.Read(part[len(part):cap(part)])
		part = part[:len(part)+n]
		if err == io.EOF {
			err = nil
		} else if err == nil {
			if len(part) == cap(part) {
				full = append(full, part)
				part = make([]byte, 0, min(2*cap(part), 16<<20))
			}
			continue
		}
		if len(full) == 0 {
			return part, err
		}
		return slices.Concat(append(full, part)...), err
	}
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

// Bounds on the output of gzip: texts and images expand about ten times, files
// made to fill memory a thousand times.
const (
	gzipAlways = 16 << 20 // bytes of output that are always allowed
	gzipTimes  = 100
)

// Gunzip decompresses r. Expansion far beyond that of texts and images is an
// error.
func Gunzip(r flate.Reader) (io.Reader, error) {
	in := &counting{in: r}
	z, err := gzip.NewReader(in)
	if err != nil {
		return nil, err
	}
	return &inflating{z, in, 0}, nil
}

// counting counts the bytes read. Since it has ReadByte, gzip reads no further
// than it needs.
type counting struct {
	in flate.Reader
	n  int64
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *counting) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}

type inflating struct {
	z   *gzip.Reader
	in  *counting
	out int64
}

func (i *inflating) Read(p []byte) (int, error) {
	n, err := i.z.Read(p)
	if i.out += int64(n); i.out > gzipAlways+gzipTimes*i.in.n {
		return 0, fmt.Errorf("gzip: %d bytes make more than %d, want at most %s and %d times as many", i.in.n, i.out, Size(gzipAlways), gzipTimes)
	}
	return n, err
}

// SameDir reports whether two names lead to one directory or file that is there.
func SameDir(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
