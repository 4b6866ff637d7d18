package sockets

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"
)

// All that follows a handshake, on each connection, is frames: a header, a body and an end.
//
//	header: kind (1 byte), session, length of the body, index, sizes (8 bytes each), CRC-32C of these
//	end:    whether the sender has given the body up (1 byte), CRC-32C of the body and of that
//
// Numbers are little-endian. Index and sizes are 0 except in frames of tensors.
type header struct {
	kind    kind
	session uint64
	length  uint64
	index   int64  // of the route
	sizes   uint64 // a digest of the tensors' sizes
}

const (
	headerBytes = 1 + 4*8 + 4
	endBytes    = 1 + 4
	// block is how many bytes are summed at a time, just before they are written or after
	// they were read, while they are in the cache.
	block = 1 << 17
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged says that a sum is wrong: something else was sent.
var errDamaged = errors.New("a wrong sum")

// damaged is the error of a frame with a wrong sum: its number on its connection, from 1.
type damaged int

func (d damaged) Error() string { return fmt.Sprintf("message %d is damaged", int(d)) }

func (h header) encode() []byte {
	b := append(make([]byte, 0, headerBytes), byte(h.kind))
	for _, v := range [...]uint64{h.session, h.length, uint64(h.index), h.sizes} {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseHeader reads what encode has written.
func parseHeader(b []byte) (header, error) {
	const summed = headerBytes - 4
	if crc32.Checksum(b[:summed], castagnoli) != binary.LittleEndian.Uint32(b[summed:]) {
		return header{}, errDamaged
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[1+8*i:]) }
	h := header{kind(b[0]), at(0), at(1), int64(at(2)), at(3)}
	return h, h.check()
}

// check is an error if no frame has such a kind and length.
func (h header) check() error {
	b, ok := bounds[h.kind]
	if !ok {
		return fmt.Errorf("a frame of kind %d: want 1 to %d", h.kind, lastKind)
	}
	if h.length < b[0] || h.length > b[1] {
		return fmt.Errorf("a frame of kind %d with %d bytes: want %d to %d", h.kind, h.length, b[0], b[1])
	}
	return nil
}

// end is the end of a body with a sum.
func end(sum uint32, givenUp bool) []byte {
	e := make([]byte, 1, endBytes)
	if givenUp {
		e[0] = 1
	}
	return binary.LittleEndian.AppendUint32(e, crc32.Update(sum, castagnoli, e))
}

// writer writes frames. If a write fails in the middle of a frame, as when its caller gives
// up, zeros take the place of what is missing before the next frame.
type writer struct {
	conn   net.Conn
	limit  time.Duration // for a block; 0: none
	begun  atomic.Uint64 // bytes that were written, or are being written
	owed   []byte        // of a header or an end
	rest   uint64        // bytes of the body
	within bool          // the body's end is still to come
	sum    uint32        // of the body so far
}

// write writes a frame, by blocks.
func (w *writer) write(h header, body [][]byte) error {
	if err := w.makeUp(); err != nil {
		return err
	}
	body = slices.Clone(body) // which other writers may have, too
	w.owed, w.rest, w.within, w.sum = h.encode(), h.length, true, 0
	for w.within {
		var some [][]byte
		for room := block; room > 0 && len(body) > 0; {
			n := min(len(body[0]), room)
			some, room = append(some, body[0][:n]), room-n
			if body[0] = body[0][n:]; len(body[0]) == 0 {
				body = body[1:]
			}
		}
		if err := w.writeBlock(some, false); err != nil {
			return err
		}
	}
	return nil
}

// makeUp ends a frame that was given up.
func (w *writer) makeUp() error {
	for w.within || len(w.owed) > 0 {
		zeros := make([]byte, min(w.rest, block))
		if err := w.writeBlock([][]byte{zeros}, true); err != nil {
			return err
		}
	}
	return nil
}

// writeBlock writes what is owed, the next bytes of the body and, after the last, its end.
// After a failure it keeps the sum of the bytes that were written.
func (w *writer) writeBlock(body [][]byte, givenUp bool) error {
	sum, bytes := w.sum, uint64(0)
	all := net.Buffers{w.owed}
	for _, b := range body {
		sum = crc32.Update(sum, castagnoli, b)
		bytes += uint64(len(b))
		all = append(all, b)
	}
	var last []byte
	if w.within && bytes == w.rest {
		last = end(sum, givenUp)
		all = append(all, last)
	}
	if w.limit > 0 {
		_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit)) // an error: it is closed
	}
	total := uint64(len(w.owed)+len(last)) + bytes
	w.begun.Add(total)
	n, err := all.WriteTo(w.conn)
	if err == nil {
		w.owed, w.rest, w.sum, w.within = nil, w.rest-bytes, sum, last == nil && w.within
		return nil
	}
	written := uint64(n)
	w.begun.Add(written - total)
	owed := min(written, uint64(len(w.owed)))
	w.owed, written = w.owed[owed:], written-owed
	if written >= bytes && last != nil && len(w.owed) == 0 && written > 0 {
		w.owed, w.rest, w.within = last[written-bytes:], 0, false
		return err
	}
	w.rest -= written
	for _, b := range body {
		b = b[:min(uint64(len(b)), written)]
		w.sum = crc32.Update(w.sum, castagnoli, b)
		written -= uint64(len(b))
	}
	return err
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
	rest   uint64 // bytes of the body
	within bool   // the body's end is still to come
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

// next passes over what is left of the frame before and reads a header. If a read fails, it
// goes on there the next time.
func (r *reader) next() (header, error) {
	h, err := r.peek()
	if err == nil {
		r.take(h)
	}
	return h, err
}

// peek is next, after which it can be called again.
func (r *reader) peek() (header, error) {
	for r.rest > 0 {
		n, err := r.r.Discard(int(min(r.rest, 1<<20)))
		r.rest -= uint64(n)
		if err != nil {
			return header{}, unexpected(err)
		}
	}
	if r.within {
		if _, err := r.r.Peek(endBytes); err != nil {
			return header{}, unexpected(err)
		}
		r.skip(endBytes)
		r.within = false
	}
	raw, err := r.r.Peek(headerBytes)
	if err != nil {
		if len(raw) > 0 {
			err = unexpected(err)
		}
		return header{}, err
	}
	h, err := parseHeader(raw)
	if errors.Is(err, errDamaged) {
		err = damaged(r.frames + 1)
	}
	return h, err
}

// take goes on to the body of a header that peek has read.
func (r *reader) take(h header) {
	r.skip(headerBytes)
	r.frames++
	r.rest, r.within, r.sum = h.length, true, 0
}

// skip passes over bytes that are in the buffer.
func (r *reader) skip(n int) {
	if _, err := r.r.Discard(n); err != nil {
		panic(err)
	}
}

// read reads the next bytes of the body.
func (r *reader) read(b []byte) error {
	for len(b) > 0 {
		n, err := io.ReadFull(r.r, b[:min(len(b), block)])
		r.sum = crc32.Update(r.sum, castagnoli, b[:n])
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
	raw, err := r.r.Peek(endBytes)
	if err != nil {
		return false, unexpected(err)
	}
	givenUp = raw[0] == 1
	sum := crc32.Update(r.sum, castagnoli, raw[:1])
	whole := raw[0] <= 1 && sum == binary.LittleEndian.Uint32(raw[1:])
	r.skip(endBytes)
	r.within = false
	if !whole {
		return false, damaged(r.frames)
	}
	return givenUp, nil
}

// unexpected is err, which is not io.EOF within something.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
