package sockets

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// encoded is what is written for a frame.
func encoded(h header, body ...[]byte) []byte {
	own, their := net.Pipe()
	go func() {
		w := writer{conn: own}
		w.write(h, body)
		own.Close()
	}()
	b, err := io.ReadAll(their)
	if err != nil {
		panic(err)
	}
	return b
}

func raw(f frame) []byte { return encoded(f.header(), f.body...) }

// ended is a connection by which something has come.
type ended struct {
	net.Conn
	r io.Reader
}

func (e ended) Read(b []byte) (int, error)      { return e.r.Read(b) }
func (e ended) SetReadDeadline(time.Time) error { return nil }

func readerOf(b []byte) *reader {
	return newReader(context.Background(), ended{r: bytes.NewReader(b)}, time.Hour)
}

// A frame that was written is read as it was.
func TestFrames(t *testing.T) {
	of, from := group{place.Stage(1), place.Place{Replica: 3, Stage: 2, Chunk: 1}, 70000}, place.Place{Replica: 1 << 15, Stage: 7}
	line := transport.Route{From: from, To: place.Stage(9), What: transport.GroupGradient}
	for _, f := range []frame{
		causeFrame(left, 7, nil),
		{kind: noted},
		causeFrame(aborted, 1<<40, errors.New(strings.Repeat("x", 100_000))),
		textFrame(refused, 0, ""),
		textFrame(gone, 0, "silent", 3),
		textFrame(broken, 0, "damaged", 3, 4),
		messageFrame(9, of, from, bytes.Repeat([]byte("content"), 50_000)),
		messageFrame(9, of, from, nil),
		lineFrame(asked, 1<<50, line),
	} {
		b := raw(f)
		got, err := readerOf(b).frame()
		if err != nil || got.kind != f.kind || got.session != f.session || !bytes.Equal(raw(got), b) {
			t.Errorf("kind %d: %v, %v", f.kind, got, err)
		}
		for _, short := range []int{1, headerBytes - 1, headerBytes, len(b) - 1} {
			if _, err := readerOf(b[:short]).frame(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("kind %d, %d of %d bytes: %v", f.kind, short, len(b), err)
			}
		}
		switch f.kind {
		case message:
			group, place, content := got.gathered()
			if group != of || place != from || !bytes.Equal(content, f.body[1]) {
				t.Errorf("group %v, place %v, %d bytes", group, place, len(content))
			}
		case asked:
			if n, r := got.line(); n != 1<<50 || r != line {
				t.Errorf("%d bytes of %v", n, r)
			}
		case broken:
			if got.numberAt(0) != 3 || got.numberAt(1) != 4 || got.text()[8:] != "damaged" {
				t.Errorf("%q", got.text())
			}
		}
	}
}

// Every bit of a frame counts, in its header, its body and its end, and the frames before it
// are read.
func TestFlippedBits(t *testing.T) {
	first := raw(textFrame(refused, 3, "fine"))
	b := slices.Concat(first, raw(messageFrame(2, group{places: 1}, place.Stage(3), []byte("content"))))
	for bit := 8 * len(first); bit < 8*len(b); bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		r := readerOf(b)
		if f, err := r.frame(); err != nil || f.text() != "fine" {
			t.Fatalf("before: %v, %v", f, err)
		}
		if _, err := r.frame(); err == nil || err.Error() != "message 2 is damaged" {
			t.Errorf("bit %d: %v", bit, err)
		}
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// Frames that no version of this program writes are refused, and memory is taken only for
// what comes.
func TestFrameBounds(t *testing.T) {
	with := func(k kind, length uint64) []byte { return header{kind: k, session: 0, length: length}.encode() }
	for _, b := range [][]byte{
		with(0, 0), with(lastKind+1, 0), with(255, 8), with(beat, 7), with(beat, 9), with(left, maxText+1), with(noted, 1), with(aborted, maxText+1),
		with(message, messageHeader-1), with(message, maxMessage+1), with(message, 1<<40), with(table, 1<<63), with(tensors, maxTensors+1), with(asked, 1),
	} {
		if _, err := readerOf(append(b, make([]byte, 100)...)).frame(); err == nil || !strings.Contains(err.Error(), "a frame of kind") {
			t.Errorf("%v: %v", b, err)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := readerOf(append(with(message, maxMessage), make([]byte, 1<<20)...)).frame(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes for a message of a MiB that says it has 16 GiB", took)
	}
}

// Tensors of other sizes are refused, also if all of them together have as many elements.
func TestHeaders(t *testing.T) {
	due := transport.Route{To: place.Stage(1), Index: 5}
	tensors := func(sizes ...int) (ts [][]float32) {
		for _, n := range sizes {
			ts = append(ts, make([]float32, n))
		}
		return ts
	}
	h := headerOf(9, 5, tensors(3, 0, 4))
	got, err := parseHeader(h.encode())
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
}

// narrow takes some bytes, and then fails until there is more room.
type narrow struct {
	net.Conn
	took []byte
	room int
}

func (s *narrow) Write(b []byte) (int, error) {
	n := min(len(b), s.room)
	s.took, s.room = append(s.took, b[:n]...), s.room-n
	if n < len(b) {
		return n, os.ErrDeadlineExceeded
	}
	return n, nil
}

// A frame that is given up at any of its bytes is made up for: the next one is read, and the
// first is whole, or says that it was given up.
func TestGivenUp(t *testing.T) {
	for _, body := range [][]byte{[]byte("some bytes"), {}} {
		h := header{kind: tensors, session: 1, length: uint64(len(body))}
		for at := range headerBytes + len(body) + endBytes {
			conn := &narrow{room: at}
			w := writer{conn: conn}
			own := slices.Clone(body)
			if err := w.write(h, [][]byte{own}); err == nil {
				t.Fatalf("%d bytes: written", at)
			}
			if n := w.begun.Load(); n != uint64(at) {
				t.Errorf("%d bytes: begun %d", at, n)
			}
			clear(own) // its memory is the caller's again
			conn.room = 1 << 10
			if err := w.write(header{kind: tensors, session: 2}, nil); err != nil {
				t.Fatal(err)
			}
			r := readerOf(conn.took)
			got := make([]byte, len(body))
			first, err := r.next()
			if err == nil {
				err = r.read(got)
			}
			givenUp, wrong := r.end()
			whole := at >= headerBytes+len(body) && at > headerBytes
			if err != nil || wrong != nil || first != h || givenUp == whole || whole && !bytes.Equal(got, body) {
				t.Errorf("%d bytes: %v, %q, given up %v, %v, %v", at, first, got, givenUp, err, wrong)
			}
			if second, err := r.next(); err != nil || second.session != 2 {
				t.Errorf("%d bytes: then %v, %v", at, second, err)
			}
			r = readerOf(conn.took) // passing over the first
			r.next()
			if second, err := r.next(); err != nil || second.session != 2 {
				t.Errorf("%d bytes: then %v, %v", at, second, err)
			}
		}
	}
}

// Whatever comes, frames that are read are ones that could be written.
func FuzzFrame(f *testing.F) {
	f.Add(raw(textFrame(gone, 0, "why", 1)))
	f.Add(raw(messageFrame(2, group{places: 1}, place.Stage(3), []byte("content"))))
	f.Add(raw(causeFrame(left, 5, errors.New("no space"))))
	f.Add(raw(lineFrame(sent, 5, transport.Route{})))
	f.Add(bytes.Repeat([]byte{255}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) >= headerBytes { // so that more than a sum is tried
			binary.LittleEndian.PutUint32(b[headerBytes-4:], crc32.Checksum(b[:headerBytes-4], castagnoli))
		}
		in := bytes.NewReader(b)
		r := newReader(context.Background(), ended{r: in}, time.Hour)
		for {
			from := len(b) - in.Len() - r.r.Buffered()
			got, err := r.frame()
			if err != nil {
				return
			}
			again := raw(got)
			if h := got.header(); !bytes.Equal(again[:1+2*8], b[from:from+1+2*8]) || h.check() != nil {
				t.Errorf("%v is read of %v", got, b[from:])
			}
			switch got.kind {
			case message:
				got.gathered()
			case asked, sent:
				got.line()
			case gone:
				got.numberAt(0)
			case broken:
				got.numberAt(1)
			case aborted, left:
				got.cause()
			}
		}
	})
}

// Whatever comes by a line, tensors are received that were sent, or an error.
func FuzzLine(f *testing.F) {
	x := [][]float32{{1, 2, 3}}
	good := encoded(headerOf(3, 5, x), memoryOf(x[0]))
	f.Add(good)
	f.Add(slices.Concat(encoded(headerOf(1, 5, x), memoryOf(x[0])), good))
	f.Add(good[:50])
	f.Fuzz(func(t *testing.T, b []byte) {
		e := newEnd(Config{Size: 2, Owner: stages(2)})
		l := e.inLine(transport.Route{From: place.Stage(1)})
		due := l.route
		due.Index = 5
		dst := [][]float32{make([]float32, 3)}
		arrived := 0
		err := l.take(t.Context(), readerOf(b), 3, due, dst, func() { arrived++ })
		if err == nil && (arrived != 1 || !bytes.Contains(b, encoded(headerOf(3, 5, dst), memoryOf(dst[0]))[1:headerBytes-4])) {
			t.Errorf("%v of %v", dst, b)
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
		r := bytes.NewReader(raw)
		their, err := opening(r)
		if err != nil {
			return
		}
		if said, err := answerCall(caller{r}, secret, their); err == nil {
			t.Errorf("%+v", said)
		}
	})
}
