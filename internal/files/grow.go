package files

import (
	"bufio"
	"errors"
	"io"
	"os"
)

// Growing is a file that a long run writes piece by piece, so that what is
// written stays when the run is interrupted. It is the exception to all or
// nothing.
type Growing struct {
	name string
	f    *os.File
}

// Grow begins a file anew: an existing one loses its content. Links are followed
// as by [Write].
func Grow(name string) (*Growing, error) {
	g, _, err := Regrow(name, func(int64, []byte) bool { return false })
	return g, err
}

// Regrow goes on with a file that has grown before. It keeps the lines from the first one on
// as long as keep accepts them, with the number of bytes before each, and drops the rest,
// such as a line that an interrupted writer has begun. kept says whether there are any.
func Regrow(name string, keep func(at int64, line []byte) bool) (g *Growing, kept bool, err error) {
	f, end, err := regrow(name, keep)
	if err != nil {
		return nil, false, named(name, err)
	}
	return &Growing{name, f}, end > 0, nil
}

// longestKept is the longest line that Regrow keeps.
const longestKept = 1 << 20

func regrow(name string, keep func(at int64, line []byte) bool) (f *os.File, end int64, err error) {
	path, _, err := target(name)
	if err != nil {
		return nil, 0, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, 0, err
	}
	if end, err = lines(f, keep); err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, end, nil
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
