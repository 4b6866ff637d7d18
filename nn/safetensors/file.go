package safetensors

import (
	"io"
	"math"

	"gpipebench/internal/files"
)

// Open is [Read] of the named file. The caller closes it after reading its
// tensors.
func Open(name string) (*File, error) {
	r, size, err := files.OpenRegular(name, files.Kind{What: "weights", Bytes: math.MaxInt64})
	if err != nil {
		return nil, err
	}
	f, err := Read(r, size, name)
	if err != nil {
		r.Close()
		return nil, err
	}
	f.close = r.Close
	return f, nil
}

// WriteFile is [Write] to the named file, which is written whole or not at all:
// see [files.Write].
func WriteFile(name string, tensors []Tensor, metadata map[string]string) error {
	return files.Write(name, func(w io.Writer) error { return Write(w, tensors, metadata) })
}
