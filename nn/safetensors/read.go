package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// File is a file whose header has been read and checked against its size.
type File struct {
	Metadata map[string]string // nil if there is none
	Tensors  []Entry           // in the order of their data

	name  string
	data  *io.SectionReader
	close func() error // closes the file if Open opened it
}

// Entry describes a tensor in a file.
type Entry struct {
	Name  string
	Shape []int

	dtype    string
	from, to int64 // bytes of the data
}

// Elems returns the number of the tensor's elements.
func (e *Entry) Elems() int64 { return (e.to - e.from) / bytesOf[e.dtype] }

// Read reads the header of a file of the given size and checks all of it; r is
// kept for reading the tensors. Errors are one line that starts with the file's
// name.
func Read(r io.ReaderAt, size int64, name string) (*File, error) {
	f := &File{name: name}
	if err := f.read(r, size); err != nil {
		return nil, f.wrap(err)
	}
	return f, nil
}

// Values calls each with the values of tensor i, some at a time, in order. They are valid until
// each returns, whose first error ends it. Errors do not name the file.
func (f *File) Values(i int, each func(values []float32) error) error {
	t := &f.Tensors[i]
	size := bytesOf[t.dtype]
	r := io.NewSectionReader(f.data, t.from, t.to-t.from)
	data, values := make([]byte, part*size), make([]float32, part)
	for left := t.Elems(); left > 0; left -= int64(len(values)) {
		values = values[:min(left, part)]
		data := data[:int64(len(values))*size]
		if _, err := io.ReadFull(r, data); err != nil {
			return fmt.Errorf("tensor %s: %w", quoted(t.Name), cut(err))
		}
		for j := range values {
			if size == elemBytes {
				values[j] = math.Float32frombits(binary.LittleEndian.Uint32(data[j*elemBytes:]))
			} else {
				values[j] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(data[2*j:])) << 16)
			}
		}
		if err := each(values); err != nil {
			return err
		}
	}
	return nil
}

// Floats reads tensor i into dst, which must have its length.
func (f *File) Floats(i int, dst []float32) error {
	if t := &f.Tensors[i]; int64(len(dst)) != t.Elems() {
		panic(fmt.Sprintf("safetensors: tensor %s of %d elements into %d", t.Name, t.Elems(), len(dst)))
	}
	if err := f.Values(i, func(values []float32) error {
		dst = dst[copy(dst, values):]
		return nil
	}); err != nil {
		return f.wrap(err)
	}
	return nil
}

// Close closes the file, if [Open] opened it.
func (f *File) Close() error {
	if f.close == nil {
		return nil
	}
	return f.close()
}

func (f *File) wrap(err error) error { return fmt.Errorf("%s: %w", f.name, err) }

// cut replaces the end of file, which a file that keeps its size does not reach.
func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the file became shorter while it was read")
	}
	return err
}

var errNoObject = errors.New("not safetensors: the header does not start with '{'")

func (f *File) read(r io.ReaderAt, size int64) error {
	if size < lengthBytes {
		return fmt.Errorf("not safetensors: the file has %d bytes, want at least %d, the header's length", size, lengthBytes)
	}
	var length [lengthBytes]byte
	if _, err := io.ReadFull(io.NewSectionReader(r, 0, lengthBytes), length[:]); err != nil {
		return cut(err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if behind := uint64(size - lengthBytes); n > behind {
		return fmt.Errorf("not safetensors, or truncated: a header of %d bytes should follow the first %d, there are %d", n, lengthBytes, behind)
	}
	if n > maxHeader {
		return fmt.Errorf("not safetensors: a header of %d bytes, want at most %d", n, maxHeader)
	}
	// Read one byte first, before allocating as many as the header of a sparse
	// file of zeros may claim.
	first := make([]byte, min(n, 1))
	if _, err := io.ReadFull(io.NewSectionReader(r, lengthBytes, int64(n)), first); err != nil {
		return cut(err)
	}
	if string(first) != "{" {
		return errNoObject
	}
	header := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(r, lengthBytes, int64(n)), header); err != nil {
		return cut(err)
	}
	if err := f.parse(header); err != nil {
		return err
	}
	start := lengthBytes + int64(n)
	f.data = io.NewSectionReader(r, start, size-start)
	return f.layout()
}

// layout sorts the tensors by the place of their data and checks that they fill
// all of it.
func (f *File) layout() error {
	slices.SortStableFunc(f.Tensors, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	var next int64
	for i := range f.Tensors {
		t := &f.Tensors[i]
		switch {
		case t.to > f.data.Size():
			return fmt.Errorf("tensor %s: its data ends at byte %d, the file's at %d: truncated?", quoted(t.Name), t.to, f.data.Size())
		case t.from < next:
			return fmt.Errorf("tensor %s: its data starts at byte %d, within that of %s, which ends at %d", quoted(t.Name), t.from, quoted(f.Tensors[i-1].Name), next)
		case t.from > next:
			return fmt.Errorf("tensor %s: its data starts at byte %d: the %d bytes before it belong to no tensor", quoted(t.Name), t.from, t.from-next)
		}
		next = t.to
	}
	if rest := f.data.Size() - next; rest > 0 {
		if len(f.Tensors) == 0 {
			return fmt.Errorf("%d bytes of data, and no tensors", rest)
		}
		return fmt.Errorf("%d bytes after the last tensor, %s", rest, quoted(f.Tensors[len(f.Tensors)-1].Name))
	}
	return nil
}

// parse reads the header's JSON token by token: decoding into Go values would
// silently accept names that occur twice and fields that differ in case.
func (f *File) parse(header []byte) error {
	if !utf8.Valid(header) {
		return errors.New("the header is not UTF-8")
	}
	p := parser{json.NewDecoder(bytes.NewReader(header))}
	p.UseNumber()
	err := p.object("the header", func(name string) error {
		if name == metadataKey {
			f.Metadata = map[string]string{}
			return p.object(metadataKey, func(key string) error {
				text, err := p.text()
				if err != nil {
					return fmt.Errorf("%s: %s: %w", metadataKey, quoted(key), err)
				}
				f.Metadata[key] = text
				return nil
			})
		}
		t, err := p.entry(name)
		if err != nil {
			return fmt.Errorf("tensor %s: %w", quoted(name), err)
		}
		f.Tensors = append(f.Tensors, t)
		return nil
	})
	if err != nil {
		return err
	}
	if rest := bytes.TrimLeft(header[p.InputOffset():], " "); len(rest) > 0 {
		return fmt.Errorf("%q after the header's object: want spaces", rest[:1])
	}
	return nil
}

type parser struct{ *json.Decoder }

// token returns the next token; the end of the header is an error.
func (p parser) token() (json.Token, error) {
	t, err := p.Token()
	switch err {
	case nil:
		return t, nil
	case io.EOF, io.ErrUnexpectedEOF:
		return nil, errors.New("the header's JSON ends too early")
	}
	return nil, fmt.Errorf("the header's JSON: %w", err)
}

func (p parser) delimiter(want json.Delim) error {
	t, err := p.token()
	if err == nil && t != want {
		err = fmt.Errorf("%s where %q should be", shown(t), want.String())
	}
	return err
}

// object reads an object; value reads what follows each key.
func (p parser) object(what string, value func(key string) error) error {
	if err := p.delimiter('{'); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	seen := map[string]bool{}
	for p.More() {
		t, err := p.token()
		if err != nil {
			return err
		}
		key := t.(string) // the decoder accepts nothing else as a key
		if seen[key] {
			return fmt.Errorf("%s: %s comes twice", what, quoted(key))
		}
		seen[key] = true
		if err := value(key); err != nil {
			return err
		}
	}
	return p.delimiter('}')
}

func (p parser) text() (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	if s, ok := t.(string); ok {
		return s, nil
	}
	return "", fmt.Errorf("%s where a string should be", shown(t))
}

// entry reads a tensor's entry in the header.
func (p parser) entry(name string) (Entry, error) {
	e := Entry{Name: name}
	var have struct{ dtype, shape, offsets bool }
	err := p.object("its entry", func(field string) error {
		switch field {
		case "dtype":
			have.dtype = true
			s, err := p.text()
			if e.dtype = s; err == nil && bytesOf[s] == 0 {
				err = fmt.Errorf("dtype %s: want %q or %q", quoted(s), dtype, "BF16")
			}
			return err
		case "shape":
			have.shape = true
			dims, err := p.numbers(field, strconv.IntSize-1)
			for _, d := range dims {
				e.Shape = append(e.Shape, int(d))
			}
			return err
		case "data_offsets":
			have.offsets = true
			at, err := p.numbers(field, 63)
			switch {
			case err != nil:
				return err
			case len(at) != 2 || at[0] > at[1]:
				return fmt.Errorf("data_offsets %s: want the start and the end of the data", shown(at))
			}
			e.from, e.to = at[0], at[1]
			return nil
		}
		return fmt.Errorf("unknown field %s: want dtype, shape and data_offsets", quoted(field))
	})
	switch {
	case err != nil:
		return e, err
	case !have.dtype:
		return e, errors.New("no dtype")
	case !have.shape:
		return e, errors.New("no shape")
	case !have.offsets:
		return e, errors.New("no data_offsets")
	}
	if bytes, size := e.to-e.from, bytesOf[e.dtype]; bytes%size != 0 || !holds(e.Shape, bytes/size) {
		return e, fmt.Errorf("%d bytes of data: shape %s of %s needs a different number", bytes, shown(e.Shape), e.dtype)
	}
	return e, nil
}

// numbers reads an array of non-negative integers that fit into the given bits.
func (p parser) numbers(what string, bits int) ([]int64, error) {
	if err := p.delimiter('['); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	var ns []int64
	for p.More() {
		if len(ns) == maxDims {
			return nil, fmt.Errorf("%s: more than %d numbers", what, maxDims)
		}
		t, err := p.token()
		if err != nil {
			return nil, err
		}
		digits, ok := t.(json.Number)
		n, err := strconv.ParseUint(digits.String(), 10, bits)
		if !ok || err != nil {
			return nil, fmt.Errorf("%s: %s is not a whole number of at least 0", what, shown(t))
		}
		ns = append(ns, int64(n))
	}
	return ns, p.delimiter(']')
}

// shown formats a token, or a list of numbers, for a message.
func shown(v any) string {
	if s, ok := v.(string); ok {
		return quoted(s)
	}
	if v == nil {
		return "null"
	}
	s := fmt.Sprint(v)
	if len(s) > longest {
		return s[:longest] + "..."
	}
	return s
}

// quoted formats a string for a message: on one line, and shortened if it is
// long.
func quoted(s string) string {
	if len(s) > longest {
		return strconv.Quote(s[:longest]) + "..."
	}
	return strconv.Quote(s)
}

const longest = 200
