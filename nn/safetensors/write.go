package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"unicode/utf8"
)

// dataAlign is the alignment of the data's offset in the file: a cache line, so
// that a mapped file can be used in place.
const dataAlign = 64

// Write writes tensors in the order given, and metadata, which may be nil. The
// same arguments give the same bytes. Invalid arguments are reported before
// anything is written.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	h, err := header(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(h); err != nil {
		return err
	}
	buf := make([]byte, 0, chunk)
	for _, t := range tensors {
		for part := range slices.Chunk(t.Data, chunk/elemBytes) {
			buf = Append(buf[:0], part)
			if _, err := w.Write(buf); err != nil {
				return err
			}
		}
	}
	return nil
}

// Append appends numbers as the format stores them, little-endian. Every NaN is
// stored as 0x7fc00000, since its other bits depend on the processor.
func Append(to []byte, values []float32) []byte {
	for _, v := range values {
		bits := math.Float32bits(v)
		if v != v {
			bits = 0x7fc00000
		}
		to = binary.LittleEndian.AppendUint32(to, bits)
	}
	return to
}

// header returns everything that precedes the data.
func header(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var h bytes.Buffer
	h.Write(make([]byte, lengthBytes))
	separator := byte('{')
	field := func(name string) {
		h.WriteByte(separator)
		quote(&h, name)
		h.WriteByte(':')
		separator = ','
	}
	if len(metadata) > 0 {
		field(metadataKey)
		separator = '{'
		for _, key := range slices.Sorted(maps.Keys(metadata)) {
			if !utf8.ValidString(key) || !utf8.ValidString(metadata[key]) {
				return nil, fmt.Errorf("metadata %q: %q is not UTF-8", key, metadata[key])
			}
			field(key)
			quote(&h, metadata[key])
		}
		h.WriteByte('}')
	}
	seen := map[string]bool{}
	var offset int64
	for _, t := range tensors {
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if seen[t.Name] {
			return nil, fmt.Errorf("two tensors named %q", t.Name)
		}
		seen[t.Name] = true
		field(t.Name)
		end := offset + int64(len(t.Data))*elemBytes
		fmt.Fprintf(&h, `{"dtype":%q,"shape":[`, dtype)
		for i, d := range t.Shape {
			if i > 0 {
				h.WriteByte(',')
			}
			fmt.Fprint(&h, d)
		}
		fmt.Fprintf(&h, `],"data_offsets":[%d,%d]}`, offset, end)
		offset = end
	}
	if separator == '{' {
		h.WriteByte('{') // empty
	}
	h.WriteByte('}')
	for h.Len()%dataAlign != 0 {
		h.WriteByte(' ')
	}
	n := h.Len() - lengthBytes
	if n > maxHeader {
		return nil, fmt.Errorf("a header of %d bytes: want at most %d", n, maxHeader)
	}
	binary.LittleEndian.PutUint64(h.Bytes(), uint64(n))
	return h.Bytes(), nil
}

// quote appends a JSON string.
func quote(h *bytes.Buffer, s string) {
	e := json.NewEncoder(h)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // cannot happen with a string and a buffer
	}
	h.Truncate(h.Len() - 1) // the encoder's newline
}

func (t *Tensor) check() error {
	switch {
	case t.Name == metadataKey:
		return fmt.Errorf("the name is reserved for the metadata")
	case !utf8.ValidString(t.Name):
		return fmt.Errorf("the name is not UTF-8")
	case slices.ContainsFunc(t.Shape, func(d int) bool { return d < 0 }):
		return fmt.Errorf("shape %v has a negative dimension", t.Shape)
	case len(t.Shape) > maxDims:
		return fmt.Errorf("%d dimensions, want at most %d", len(t.Shape), maxDims)
	case !holds(t.Shape, int64(len(t.Data))):
		return fmt.Errorf("shape %v does not hold %d numbers", t.Shape, len(t.Data))
	}
	return nil
}

// holds reports whether a shape has exactly n elements. Dimensions are at least
// 0, and their product may overflow any integer.
func holds(shape []int, n int64) bool {
	if slices.Contains(shape, 0) {
		return n == 0
	}
	for _, d := range shape {
		if n%int64(d) != 0 {
			return false
		}
		n /= int64(d)
	}
	return n == 1
}
