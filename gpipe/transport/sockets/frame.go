package sockets

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

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
