package files

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
)

// Growing is a file that a long run writes piece by piece, so that what is
// written stays when the run is interrupted. It is the exception to all or
// nothing.
type Growing struct {
	name string
	f    *os.File
}

// Grow begins a file anew: an existing one loses its content. Links, named
// pipes, devices and descriptors are written to as by [Write].
func Grow(name string) (*Growing, error) {
	path, err := target(name)
	if err != nil {
		return nil, named(name, err)
	}
	if fd, own := descriptor(path); own {
		f, err := duplicate(fd, path)
		return &Growing{name, f}, named(name, err)
	}
	st, err := existing(path)
	if err != nil {
		return nil, named(name, err)
	}
	var f *os.File
	if st != nil && st.Mode()&fs.ModeNamedPipe != 0 {
		f, err = openPipe(path, os.O_WRONLY)
	} else {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	return &Growing{name, f}, named(name, err)
}

// Regrow goes on with a file that has grown before. It keeps the lines from the first one on
// as long as keep accepts them, with the number of bytes before each, and drops the rest,
// such as a line that an interrupted writer has begun. kept says whether there are any. A
// file that is not there, or is not a regular one, begins as with [Grow].
func Regrow(name string, keep func(at int64, line []byte) bool) (g *Growing, kept bool, err error) {
	path, err := target(name)
	if err != nil {
		return nil, false, named(name, err)
	}
	if _, own := descriptor(path); !own {
		if st, err := existing(path); err != nil {
			return nil, false, named(name, err)
		} else if st != nil && st.Mode().IsRegular() {
			f, kept, err := regrow(path, keep)
			return &Growing{name, f}, kept, named(name, err)
		}
	}
	g, err = Grow(name)
	return g, false, err
}

// longestKept is the longest line that Regrow keeps.
const longestKept = 1 << 20

func regrow(path string, keep func(at int64, line []byte) bool) (f *os.File, kept bool, err error) {
	if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, false, err
	}
	end, err := lines(f, keep)
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, false, err
	}
	return f, end > 0, nil
}

// lines returns the length of the lines that keep accepts, up to the first other one.
func lines(f *os.File, keep func(at int64, line []byte) bool) (end int64, err error) {
	for r := bufio.NewReader(f); ; {
		line, err := ReadLine(r, longestKept)
		switch {
		case err == io.EOF || errors.Is(err, ErrLongLine) || err == nil && !keep(end, line):
			return end, nil
		case err != nil:
			return 0, err
		}
		end += int64(len(line))
	}
}

// Write adds a piece. It is in the file when Write returns.
func (g *Growing) Write(piece []byte) (int, error) {
	n, err := g.f.Write(piece)
	return n, named(g.name, err)
}

// Close closes the file.
func (g *Growing) Close() error { return named(g.name, g.f.Close()) }
