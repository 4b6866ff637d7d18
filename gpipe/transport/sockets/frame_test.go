package sockets

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/testkit"
)

// encoded is what is written for a frame.
func encoded(h header, body ...[]byte) []byte {
	conn := &narrow{room: math.MaxInt}
	w := writer{conn: conn}
	w.write(h, body)
	return conn.took
}

func raw(f frame) []byte {
	conn := &narrow{room: math.MaxInt}
	w := writer{conn: conn}
	w.writeFrame(f)
	return conn.took
}

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

// next is the header of the next frame.
func (r *reader) next() (header, error) {
	h, err := r.peek()
	if err == nil {
		r.take(h)
	}
	return h, err
}

// A frame that was written is read as it was.
func TestFrames(t *testing.T) {
	from := place.Place{Replica: 3, Stage: 2, Chunk: 1}
	of := news{Group: groupOf(place.Stages(3)), Place: from, Waits: place.Stages(2)}
	for _, f := range []frame{
		{kind: left, session: 7},
		{kind: noted},
		{kind: aborted, session: 1 << 40, news: causeOf(fmt.Errorf("step 3: %w", context.Canceled))},
		{kind: refused, news: causeOf(errors.New(strings.Repeat("\x00", maxText)))},
		{kind: over, news: news{Gone: &transport.PeerError{Rank: 3, Where: "stage 3", Cause: "silent"}}},
		{kind: over, news: news{Broken: &transport.LinkError{From: 3, To: 4, What: "damaged"}}},
		{kind: message, session: 9, news: of, content: bytes.Repeat([]byte("content"), 500_000)},
		{kind: message, session: 9, news: of},
		{kind: asked, news: news{Bytes: 1<<64 - 1, Line: transport.Route{From: from, To: place.Stage(9), What: transport.GroupGradient}}},
		{kind: beat, news: news{Sent: time.Unix(3, 999).UTC()}},
		{kind: table, news: news{Ranks: []listed{{"10.0.0.1:5", "a"}, {"10.0.0.2:5", "b"}}}},
	} {
		f.content = append([]byte{}, f.content...)
		b := raw(f)
		if got, err := readerOf(b).frame(); err != nil || !reflect.DeepEqual(got, f) {
			t.Errorf("kind %d: %v, %v", f.kind, got, err)
		}
		for _, short := range []int{1, headerBytes - 1, headerBytes, len(b) - 1} {
			if _, err := readerOf(b[:short]).frame(); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("kind %d, %d of %d bytes: %v", f.kind, short, len(b), err)
			}
		}
	}
	long, err := readerOf(raw(frame{kind: refused, news: causeOf(errors.New(strings.Repeat("x", 2*maxText)))})).frame()
	if err != nil || long.Text != strings.Repeat("x", maxText) {
		t.Errorf("%d bytes of text, %v", len(long.Text), err)
	}
}

// Every bit of a frame counts, in its header, its body and its end, and the frames before it
// are read.
func TestFlippedBits(t *testing.T) {
	first := raw(frame{kind: refused, news: news{Text: "fine"}})
	b := slices.Concat(first, raw(frame{kind: message, session: 2, news: news{Place: place.Stage(3)}, content: []byte("content")}))
	for bit := 8 * len(first); bit < 8*len(b); bit++ {
		b[bit/8] ^= 1 << (bit % 8)
		r := readerOf(b)
		testkit.Equal(t, testkit.Must(r.frame())(t).Text, "fine", "before")
		_, err := r.frame()
		testkit.Equal(t, fmt.Sprint(err), "message 2 is damaged", "bit %d", bit)
		b[bit/8] ^= 1 << (bit % 8)
	}
}

// Frames that no version of this program writes are refused, and memory is taken only for
// what comes.
func TestFrameBounds(t *testing.T) {
	with := func(k kind, length uint64) []byte { return header{kind: k, session: 0, length: length}.encode() }
	for _, b := range [][]byte{
		with(0, 0), with(lastKind+1, 0), with(255, 8), with(beat, maxNews+1), with(message, maxMessage+1), with(table, 1<<63), with(tensors, maxTensors+1),
		with(tensors, 8), header{kind: noted, length: 8, sizes: 9}.encode(), encoded(header{kind: over, length: 7, sizes: 7}, []byte("no JSON")),
	} {
		testkit.Refused(readerOf(append(b, make([]byte, 100)...)).frame())(t, "a frame of kind")
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
	testkit.Equal(t, h.fits(due, tensors(3, 0, 4)), nil)
	for _, other := range [][]int{{3, 4, 0}, {3, 4}, {7}, {4, 0, 3}, {}, {3, 0, 5}} {
		if h.fits(due, tensors(other...)) == nil {
			t.Errorf("%v fits", other)
		}
	}
	due.Index = -1
	testkit.Fails(t, h.fits(due, tensors(3, 0, 4)), "activation 5 from stage 0 to stage 1 arrived where activation -1")
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
			testkit.Equal(t, w.begun.Load(), uint64(at), "%d bytes: begun", at)
			clear(own) // its memory is the caller's again
			conn.room = 7
			if err := w.write(header{kind: tensors, session: 2}, nil); err == nil {
				t.Fatalf("%d bytes: what was owed is written", at) // not at once
			}
			conn.room = 1 << 10
			testkit.NoError(t, w.write(header{kind: tensors, session: 2}, nil))
			r := readerOf(conn.took)
			if at > 0 { // otherwise nothing has come of the first
				got := make([]byte, len(body))
				first, err := r.next()
				if err == nil {
					err = r.read(got)
				}
				givenUp, wrong := r.end()
				whole := at >= headerBytes+len(body) || len(body) == 0
				if err != nil || wrong != nil || first != h || givenUp == whole || whole && !bytes.Equal(got, body) {
					t.Errorf("%d bytes: %v, %q, given up %v, %v, %v", at, first, got, givenUp, err, wrong)
				}
			}
			testkit.Equal(t, testkit.Must(r.next())(t).session, 2, "%d bytes: then", at)
			if r = readerOf(conn.took); at > 0 { // passing over the first
				r.next()
			}
			testkit.Equal(t, testkit.Must(r.next())(t).session, 2, "%d bytes: then", at)
		}
	}
}

// Whatever comes, a frame that is read can be written and read again.
func FuzzFrame(f *testing.F) {
	f.Add(raw(frame{kind: over, news: news{Gone: &transport.PeerError{Rank: 1, Cause: "why"}}}))
	f.Add(raw(frame{kind: message, session: 2, news: news{Place: place.Stage(3)}, content: []byte("content")}))
	f.Add(raw(frame{kind: asked, news: news{Bytes: 5, Line: transport.Route{What: transport.Gradient}}}))
	f.Add(bytes.Repeat([]byte{255}, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := len(b) - headerBytes - endBytes; n >= 0 { // a frame of all bytes, with the right sums
			h := header{kind(b[0]), binary.LittleEndian.Uint64(b[1:]), uint64(n), 0, uint64(b[9])}
			b = encoded(h, b[headerBytes:headerBytes+n])
		}
		got, err := readerOf(b).frame()
		if err != nil {
			return
		}
		again, err := readerOf(raw(got)).frame()
		if err != nil || !bytes.Equal(raw(again), raw(got)) {
			t.Errorf("%+v is read again as %+v, %v", got, again, err)
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
