package sockets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

func encoded(f frame) []byte { return bytes.Join(append([][]byte{f.header()}, f.body...), nil) }

// A frame that was written is read as it was.
func TestFrames(t *testing.T) {
	of, from := group{place.Stage(1), place.Place{Replica: 3, Stage: 2, Chunk: 1}, 70000}, place.Place{Replica: 1 << 15, Stage: 7}
	for _, f := range []frame{
		causeFrame(left, 7, nil),
		{kind: noted},
		causeFrame(aborted, 1<<40, errors.New(strings.Repeat("x", 100_000))),
		textFrame(refused, 0, ""),
		goneFrame(3, "silent"),
		messageFrame(9, of, from, bytes.Repeat([]byte("content"), 50_000)),
		messageFrame(9, of, from, nil),
	} {
		raw := encoded(f)
		got, err := readFrame(bytes.NewReader(raw))
		if err != nil || got.kind != f.kind || got.session != f.session || !bytes.Equal(encoded(got), raw) {
			t.Errorf("kind %d: %v, %v", f.kind, got, err)
		}
		for _, short := range []int{1, frameHeader - 1, len(raw) - 1} {
			if _, err := readFrame(bytes.NewReader(raw[:short])); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("kind %d, %d of %d bytes: %v", f.kind, short, len(raw), err)
			}
		}
		if f.kind == message {
			group, place, content := got.gathered()
			if group != of || place != from || !bytes.Equal(content, f.body[1]) {
				t.Errorf("group %v, place %v, %d bytes", group, place, len(content))
			}
		}
	}
}

// A header with a length that no frame has is refused, and memory is taken only for what
// comes.
func TestFrameBounds(t *testing.T) {
	with := func(k kind, length uint64) []byte {
		b := append([]byte{byte(k)}, make([]byte, 8)...)
		return binary.LittleEndian.AppendUint64(b, length)
	}
	for _, raw := range [][]byte{
		with(0, 0), with(refused+1, 0), with(255, 8), with(beat, 7), with(beat, 9), with(left, maxText+1), with(noted, 1), with(aborted, maxText+1),
		with(message, messageHeader-1), with(message, maxMessage+1), with(message, 1<<40), with(table, 1<<63),
	} {
		if _, err := readFrame(bytes.NewReader(append(raw, make([]byte, 100)...))); err == nil || !strings.Contains(err.Error(), "a frame of kind") {
			t.Errorf("%v: %v", raw, err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readFrame(io.MultiReader(bytes.NewReader(with(message, maxMessage)), bytes.NewReader(make([]byte, 1<<20)))); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes for a message of a MiB that says it has 16 GiB", took)
	}
}

// Tensors of other sizes are refused, also if all of them together have as many elements.
func TestHeads(t *testing.T) {
	due := transport.Route{To: place.Stage(1), Index: 5}
	tensors := func(sizes ...int) (ts [][]float32) {
		for _, n := range sizes {
			ts = append(ts, make([]float32, n))
		}
		return ts
	}
	h := headOf(9, 5, tensors(3, 0, 4))
	got, err := parseHead(h.encode())
	if err != nil || got != h {
		t.Errorf("%v, %v", got, err)
	}
	if err := h.fits(due, tensors(3, 0, 4)); err != nil {
		t.Error(err)
	}
	for _, other := range [][]int{{3, 4, 0}, {3, 4}, {7}, {4, 0, 3}, {}, {3, 0, 5}} {
		if h.fits(due, tensors(other...)) == nil {
			t.Errorf("%v fits", other)
		}
	}
	due.Index = -1
	if err := h.fits(due, tensors(3, 0, 4)); err == nil || !strings.Contains(err.Error(), "activation 5 from stage 0 to stage 1 arrived where activation -1") {
		t.Error(err)
	}
	h.floats = maxFloats + 1
	if _, err := parseHead(h.encode()); err == nil {
		t.Error("a message of 2^38 bytes")
	}
}

// Whatever comes, frames that are read are ones that could be written.
func FuzzFrame(f *testing.F) {
	f.Add(encoded(goneFrame(1, "why")))
	f.Add(encoded(messageFrame(2, group{places: 1}, place.Stage(3), []byte("content"))))
	f.Add(encoded(causeFrame(left, 5, errors.New("no space"))))
	f.Add(bytes.Repeat([]byte{255}, 100))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		for {
			from := len(raw) - r.Len()
			got, err := readFrame(r)
			if err != nil {
				return
			}
			if !bytes.Equal(encoded(got), raw[from:len(raw)-r.Len()]) {
				t.Errorf("%v is read of %v", got, raw[from:])
			}
			if got.kind == message {
				got.gathered()
			}
		}
	})
}

// caller is what a listener reads, and where it writes.
type caller struct{ io.Reader }

func (caller) Write(p []byte) (int, error) { return len(p), nil }

// No bytes without the secret are taken for a hello.
func FuzzHello(f *testing.F) {
	f.Add([]byte(magic))
	f.Add(append([]byte(magic), make([]byte, 200)...))
	f.Add(append(append([]byte(magic), make([]byte, nonceBytes)...), 2, 0, 0, 0, '{', '}'))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if said, err := answerCall(caller{bytes.NewReader(raw)}, secret); err == nil {
			t.Errorf("%+v", said)
		}
	})
}
