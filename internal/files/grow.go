package files

import (
	"bufio"
	"errors"
	"io"
	"os"
	"syscall"
)

// Growing is a file that a long run writes piece by piece, so that what is
// written stays when the run is interrupted. It is the exception to all or
// nothing.
type Growing struct {
	name string
	f    *os.File
}

// longestKept is the longest line that Grow keeps.
const longestKept = 1 << 20

// Grow opens a file to add to it. It keeps the file's lines from the first one on as long as keep
// accepts them, which is called with the number of bytes before each, and drops the rest, such as a
// line that an interrupted writer has begun. A nil keep begins the file anew. Kept says whether there
// are any lines. Links are followed as by [Write]. Until it is closed, other processes get [ErrInUse].
func Grow(name string, keep func(at int64, line []byte) bool) (g *Growing, kept bool, err error) {
	path, _, err := target(name)
	if err != nil {
		return nil, false, named(name, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, false, named(name, err)
	}
	end := int64(0)
	switch {
	case errors.Is(lock(f), syscall.EAGAIN):
		err = ErrInUse
	case keep != nil:
		end, err = lines(f, keep)
	}
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, false, named(name, err)
	}
	return &Growing{name, f}, end > 0, nil
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
