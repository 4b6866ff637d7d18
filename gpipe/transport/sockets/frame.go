package sockets

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"gpipebench/gpipe/internal/crc32c"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// frame is what one process says to another.
type frame struct {
	kind    kind
	session uint64
	news
	content []byte // of a message
}

type kind uint8

const (
	beat     kind = 1 + iota // a sign of life: Sent
	answer                   // to a beat: Sent, Answered
	began                    // the sender has begun this session, its next
	message                  // of a gathering: Group, Place, Waits and the content
	aborted                  // a session was: Text, Canceled
	over                     // the run is: Gone or Broken
	left                     // the sender has ended, after this many sessions: Text, "" as it was to be; Canceled
	noted                    // left has been read, or a hello
	asked                    // whether more than Bytes were sent on Line
	sent                     // more was: the same
	table                    // of all ranks, by rank 0: Ranks
	refused                  // by a listener, a connection: Text
	tensors                  // on a line: their memory
	lastKind = tensors
)

// news is what a frame says, as far as its kind has it. It is written as JSON.
type news struct {
	Sent     time.Time       `json:",omitzero"`
	Answered time.Time       `json:",omitzero"`
	Group    group           `json:",omitzero"`
	Place    place.Place     `json:",omitzero"` // that a message is of
	Waits    []place.Place   `json:",omitzero"` // the receiver's places in the group
	Text     string          `json:",omitzero"` // why; at most maxText bytes of it are sent
	Canceled bool            `json:",omitzero"` // as its process was told to
	Bytes    uint64          `json:",omitzero"`
	Line     transport.Route `json:",omitzero"`
	Ranks    []listed        `json:",omitzero"` // in order

	Gone   *transport.PeerError `json:",omitzero"`
	Broken *transport.LinkError `json:",omitzero"`
}

// group identifies the places of a gathering.
type group struct {
	Digest uint64
	Places int // how many
}

func groupOf(among []place.Place) group {
	h := fnv.New64a()
	for _, p := range among {
		fmt.Fprintln(h, p.Replica, p.Stage, p.Chunk)
	}
	return group{h.Sum64(), len(among)}
}

const (
	maxText = 1 << 16
	maxNews = 1 << 20
	// maxMessage bounds a message of a gathering, such as a process's weights.
	maxMessage = 1 << 34
	// maxTensors bounds the bytes of a message of a line.
	maxTensors = 1 << 38
)

// check is an error if no frame has such a kind and length.
func (h header) check() error {
	most := uint64(maxNews)
	switch h.kind {
	case message:
		most = maxMessage
	case tensors:
		most = maxTensors
	}
	if h.kind < beat || h.kind > lastKind || h.length > most {
		return fmt.Errorf("a frame of kind %d with %d bytes: want kind 1 to %d, and at most %d bytes", h.kind, h.length, lastKind, most)
	}
	return nil
}

// causeOf is what a frame says about why something ends; nil: as it was to.
func causeOf(err error) news {
	if err == nil {
		return news{}
	}
	return news{Text: err.Error(), Canceled: errors.Is(err, context.Canceled)}
}

// All that follows a handshake, on each connection, is frames: a header, a body and an end.
//
//	header: kind (1 byte), session, length of the body, index, sizes (8 bytes each), CRC-32C of these
//	end:    whether the sender has given the body up (1 byte), CRC-32C of the body and of that
//
// Numbers are little-endian.
type header struct {
	kind    kind
	session uint64
	length  uint64
	index   int64  // of the route of tensors
	sizes   uint64 // a digest of the tensors' sizes; of other frames, the bytes of their news, which the content follows
}

const (
	headerBytes = 1 + 4*8 + 4
	endBytes    = 1 + 4
	// block is how many bytes are summed at a time, just before they are written or after
	// they were read, while they are in the cache; most messages are one block.
	block = 1 << 20
)

// damaged is the error of a frame with a wrong sum, so that something else was sent: its
// number on its connection, from 1.
type damaged int

func (d damaged) Error() string { return fmt.Sprintf("message %d is damaged", int(d)) }

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerBytes), byte(h.kind))
	for _, v := range [...]uint64{h.session, h.length, uint64(h.index), h.sizes} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32c.Checksum(b))
}

// parseHeader reads what encode has written, but for the sum.
func parseHeader(b []byte) (header, error) {
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[1+8*i:]) }
	h := header{kind(b[0]), at(0), at(1), int64(at(2)), at(3)}
	return h, h.check()
}

// end is the end of a body with a sum.
func end(sum uint32, givenUp bool) []byte {
	e := make([]byte, 1, endBytes)
	if givenUp {
		e[0] = 1
	}
	return binary.LittleEndian.AppendUint32(e, crc32c.Update(sum, e))
}

// cut divides pieces after n bytes; the rest is nil if they have no more.
func cut(pieces [][]byte, n int) (first, rest [][]byte) {
	for i, p := range pieces {
		if len(p) > n {
			return append(slices.Clip(pieces[:i]), p[:n]), append([][]byte{p[n:]}, pieces[i+1:]...)
		}
		n -= len(p)
	}
	return pieces, nil
}

// sizeOf is how many bytes pieces have.
func sizeOf(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// addTo is a sum with further pieces.
func addTo(sum uint32, pieces [][]byte) uint32 {
	for _, p := range pieces {
		sum = crc32c.Update(sum, p)
	}
	return sum
}

// writer writes frames.
type writer struct {
	conn  net.Conn
	limit time.Duration // for a block; 0: none
	begun atomic.Uint64 // bytes that were written, or are being written
	owed  net.Buffers   // what is missing of a frame that was given up
}

// write writes a frame, by blocks. If its caller gives up in the middle, zeros take the place
// of what is missing of the body, before the next frame.
func (w *writer) write(h header, body [][]byte) error {
	if _, err := w.put(&w.owed); err != nil {
		return err
	}
	written, sum := 0, uint32(0)
	next := net.Buffers{h.encode()}
	for rest := body; ; {
		var some [][]byte
		some, rest = cut(rest, block)
		sum = addTo(sum, some)
		if next = append(next, some...); rest == nil {
			next = append(next, end(sum, false))
		}
		n, err := w.put(&next)
		if written += n; err != nil && written > 0 {
			w.owed = owed(h, body, written)
		}
		if err != nil || rest == nil {
			return err
		}
	}
}

// put writes pieces and keeps those that were not written.
func (w *writer) put(pieces *net.Buffers) (n int, err error) {
	if w.limit > 0 {
		_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit)) // an error: it is closed
	}
	all := sizeOf(*pieces)
	w.begun.Add(uint64(all))
	written, err := pieces.WriteTo(w.conn)
	w.begun.Add(uint64(written) - uint64(all))
	return int(written), err
}

// zeros are what is written of a body that was given up.
var zeros [block]byte

// owed is what has to follow the first bytes of a frame whose body is its owner's again.
func owed(h header, body [][]byte, written int) net.Buffers {
	kept, lost := cut(body, max(0, written-headerBytes))
	sum := addTo(0, kept)
	all := net.Buffers{h.encode()[min(written, headerBytes):]}
	for n := sizeOf(lost); n > 0; n -= block {
		all = append(all, zeros[:min(n, block)])
		sum = addTo(sum, all[len(all)-1:])
	}
	return append(all, end(sum, lost != nil)[max(0, written-headerBytes-int(h.length)):])
}

// reader reads frames. It may wait as long as silent permits.
type reader struct {
	net.Conn
	limit  time.Duration
	ctx    context.Context // ends reading
	silent func() error    // nothing has come for a limit: an error if that is too long
	bytes  uint64          // that have come

	r      *bufio.Reader
	frames int    // whose headers were read
	rest   uint64 // bytes of the body and its end
	sum    uint32 // of the body so far
}

// newReader is a reader that waits until ctx ends.
func newReader(ctx context.Context, conn net.Conn, limit time.Duration) *reader {
	r := &reader{Conn: conn, limit: limit, ctx: ctx, silent: func() error { return nil }}
	r.r = bufio.NewReaderSize(r, 1<<16)
	return r
}

// Read reads what has come. A read of the connection's that [during] has ended ends, too.
func (r *reader) Read(b []byte) (int, error) {
	for {
		if err := r.Conn.SetReadDeadline(time.Now().Add(r.limit)); err != nil {
			return 0, err
		}
		if r.ctx.Err() != nil { // afterwards during sets a deadline that has passed
			return 0, context.Cause(r.ctx)
		}
		n, err := r.Conn.Read(b)
		r.bytes += uint64(n)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if r.ctx.Err() != nil {
			return 0, context.Cause(r.ctx)
		}
		if err := r.silent(); err != nil {
			return 0, err
		}
	}
}

// peek passes over what is left of the frame before and reads a header, which take takes. If
// a read fails, it goes on there the next time.
func (r *reader) peek() (header, error) {
	for r.rest > 0 {
		n, err := r.r.Discard(int(min(r.rest, block)))
		r.rest -= uint64(n)
		if err != nil {
			return header{}, unexpected(err)
		}
	}
	raw, err := r.r.Peek(headerBytes)
	if err != nil {
		if len(raw) > 0 {
			err = unexpected(err)
		}
		return header{}, err
	}
	const summed = headerBytes - 4
	if crc32c.Checksum(raw[:summed]) != binary.LittleEndian.Uint32(raw[summed:]) {
		return header{}, damaged(r.frames + 1)
	}
	return parseHeader(raw)
}

// take goes on to the body of a header that peek has read.
func (r *reader) take(h header) {
	_, _ = r.r.Discard(headerBytes) // they are in the buffer
	r.frames++
	r.rest, r.sum = h.length+endBytes, 0
}

// read reads the next bytes of the body: what is more than the buffer holds, straight into b.
func (r *reader) read(b []byte) error {
	for len(b) > 0 {
		n, err := r.r.Read(b[:min(len(b), block)])
		r.sum = crc32c.Update(r.sum, b[:n])
		r.rest -= uint64(n)
		if err != nil {
			return unexpected(err)
		}
		b = b[n:]
	}
	return nil
}

// end reads the end of a body that was read. A body that its sender has given up is whole,
// too, and has nothing in it.
func (r *reader) end() (givenUp bool, err error) {
	var raw [endBytes]byte
	n, err := io.ReadFull(r.r, raw[:])
	if r.rest -= uint64(n); err != nil {
		return false, unexpected(err)
	}
	if raw[0] > 1 || crc32c.Update(r.sum, raw[:1]) != binary.LittleEndian.Uint32(raw[1:]) {
		return false, damaged(r.frames)
	}
	return raw[0] == 1, nil
}

// unexpected is err, which is not io.EOF within something.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// writeFrame writes a frame.
func (w *writer) writeFrame(f frame) error {
	f.Text = f.Text[:min(len(f.Text), maxText)]
	said, err := json.Marshal(f.news)
	if err != nil {
		return err
	}
	return w.write(header{f.kind, f.session, uint64(len(said) + len(f.content)), 0, uint64(len(said))}, [][]byte{said, f.content})
}

// frame reads the next frame. It takes memory only for bytes that have come.
func (r *reader) frame() (f frame, err error) {
	h, err := r.peek()
	if err != nil {
		return f, err
	}
	r.take(h)
	if h.kind == tensors || h.sizes > h.length {
		return f, fmt.Errorf("a frame of kind %d that says %d bytes of %d", h.kind, h.sizes, h.length)
	}
	var body []byte
	for uint64(len(body)) < h.length {
		have := len(body)
		more := int(min(h.length-uint64(have), uint64(max(have, 1<<16))))
		body = slices.Grow(body, more)[:have+more]
		if err := r.read(body[have:]); err != nil {
			return f, err
		}
	}
	if _, err := r.end(); err != nil { // no frame of these is given up: its sender is gone then
		return f, err
	}
	f = frame{kind: h.kind, session: h.session, content: body[h.sizes:]}
	if json.Unmarshal(body[:h.sizes], &f.news) != nil {
		return f, fmt.Errorf("a frame of kind %d that says nothing", h.kind)
	}
	return f, nil
}

// headerOf is the header of tensors in memory.
func headerOf(session uint64, index int, of [][]float32) header {
	h := header{kind: tensors, session: session, index: int64(index)}
	digest := fnv.New64a()
	var size [8]byte
	for _, t := range of {
		h.length += 4 * uint64(len(t))
		binary.LittleEndian.PutUint64(size[:], uint64(len(t)))
		digest.Write(size[:])
	}
	h.sizes = digest.Sum64()
	return h
}

// fits is the error of receiving a message with this header where a route's tensors are
// due, or nil.
func (h header) fits(due transport.Route, dst [][]float32) error {
	got := due
	got.Index = int(h.index)
	want := headerOf(h.session, due.Index, dst)
	switch {
	case h == want:
		return nil
	case h.index != want.index:
		return fmt.Errorf("transport: %v arrived where %v was due", got, due)
	}
	return fmt.Errorf("transport: %v has %d elements, in tensors of other sizes than the %d in %d that are due", due, h.length/4, want.length/4, len(dst))
}
