package files

import (
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
		f, err = openPipe(path, os.O_WRONLY, pipeWait)
	} else {
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	}
	return &Growing{name, f}, named(name, err)
}

// Write adds a piece. It is in the file when Write returns.
func (g *Growing) Write(piece []byte) (int, error) {
	n, err := g.f.Write(piece)
	return n, named(g.name, err)
}

// Close closes the file.
func (g *Growing) Close() error { return named(g.name, g.f.Close()) }
