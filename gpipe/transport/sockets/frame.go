package sockets

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"gpipebench/gpipe/place"
	"gpipebench/gpipe/transport"
)

// frame is a message on the connection of two processes.
type frame struct {
	kind    kind
	session uint64
	body    [][]byte // its pieces
}

type kind uint8

const (
	beat     kind = 1 + iota // a sign of life: the sender's time
	answer                   // to a beat: its time, and that of the answer
	began                    // the sender has begun this session, its next
	message                  // of a gathering: group, place, content
	aborted                  // a session was: a cause
	gone                     // a process is: its rank, why
	broken                   // what goes between two processes is: sender, receiver, what and why
	left                     // the sender has ended, after this many sessions: a cause, "" as it was to be
	noted                    // left has been read, or a hello
	asked                    // whether more was sent on a line than these bytes: their number, the route
	sent                     // more was: the same
	table                    // of all ranks' addresses, by rank 0
	refused                  // by a listener: why it does not take the connection
	tensors                  // on a line: their memory
	lastKind = tensors
)

const (
	placeBytes = 3 * 4
	// messageHeader is the group's first and last place and size, and the sender.
	messageHeader = placeBytes + placeBytes + 4 + placeBytes
	routeBytes    = 8 + placeBytes + placeBytes + 1 // with the number of bytes before it
	maxText       = 1 << 16
	maxTable      = 1 << 20
	// maxMessage bounds a message of a gathering, such as a process's weights.
	maxMessage = 1 << 34
	// maxTensors bounds the bytes of a message of a line.
	maxTensors = 1 << 38
)

// bounds are the least and most bytes of the bodies of each kind.
var bounds = map[kind][2]uint64{
	beat: {8, 8}, answer: {16, 16}, began: {0, 0}, message: {messageHeader, maxMessage}, aborted: {1, maxText},
	gone: {4, maxText}, broken: {8, maxText}, left: {1, maxText}, noted: {0, 0}, asked: {routeBytes, routeBytes},
	sent: {routeBytes, routeBytes}, table: {2, maxTable}, refused: {0, maxText}, tensors: {0, maxTensors},
}

// header is the frame's header.
func (f frame) header() header {
	h := header{kind: f.kind, session: f.session}
	for _, piece := range f.body {
		h.length += uint64(len(piece))
	}
	return h
}

// frame reads the next frame. It takes memory only for bytes that have come.
func (r *reader) frame() (frame, error) {
	h, err := r.next()
	if err != nil {
		return frame{}, err
	}
	var body []byte
	for uint64(len(body)) < h.length {
		have := len(body)
		more := int(min(h.length-uint64(have), uint64(max(have, 1<<16))))
		body = slices.Grow(body, more)[:have+more]
		if err := r.read(body[have:]); err != nil {
			return frame{}, err
		}
	}
	if _, err := r.end(); err != nil { // no frame of these is given up: its sender is gone then
		return frame{}, err
	}
	return frame{h.kind, h.session, [][]byte{body}}, nil
}

// text is the body as text.
func (f frame) text() string { return string(f.body[0]) }

// textFrame is a frame with numbers and a text, of which at most maxText-8 bytes are sent.
func textFrame(k kind, session uint64, text string, numbers ...int) frame {
	var b []byte
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return frame{k, session, [][]byte{append(b, text[:min(len(text), maxText-8)]...)}}
}

// numberAt is the i-th number of a textFrame.
func (f frame) numberAt(i int) int { return int(binary.LittleEndian.Uint32(f.body[0][4*i:])) }

// causeFrame is a frame with why something ends: whether as its process was told to, and
// a text.
func causeFrame(k kind, session uint64, cause error) frame {
	var text string
	canceled := []byte{0}
	if cause != nil {
		text = cause.Error()
		if errors.Is(cause, context.Canceled) {
			canceled[0] = 1
		}
	}
	f := textFrame(k, session, text)
	f.body = [][]byte{canceled, f.body[0]}
	return f
}

// cause is what causeFrame was called with, of a frame that was read.
func (f frame) cause() (text string, canceled bool) { return string(f.body[0][1:]), f.body[0][0] == 1 }

// lineFrame is about the first bytes of a line.
func lineFrame(k kind, bytes uint64, r transport.Route) frame {
	b := binary.LittleEndian.AppendUint64(nil, bytes)
	return frame{k, 0, [][]byte{append(appendPlace(appendPlace(b, r.From), r.To), byte(r.What))}}
}

// line takes a lineFrame apart that was read.
func (f frame) line() (bytes uint64, r transport.Route) {
	b := f.body[0]
	r.From, r.To, r.What = placeAt(b[8:]), placeAt(b[8+placeBytes:]), transport.Payload(b[8+2*placeBytes])
	return binary.LittleEndian.Uint64(b), r
}

// group identifies the places of a gathering: those with the same first and last place
// and the same number are the same.
type group struct {
	first, last place.Place
	places      int
}

func messageFrame(session uint64, of group, from place.Place, content []byte) frame {
	b := make([]byte, 0, messageHeader)
	b = appendPlace(appendPlace(b, of.first), of.last)
	b = binary.LittleEndian.AppendUint32(b, uint32(of.places))
	return frame{message, session, [][]byte{appendPlace(b, from), content}}
}

// gathered takes a message frame that was read apart.
func (f frame) gathered() (of group, from place.Place, content []byte) {
	b := f.body[0]
	of.first, of.last = placeAt(b), placeAt(b[placeBytes:])
	of.places = int(binary.LittleEndian.Uint32(b[2*placeBytes:]))
	return of, placeAt(b[2*placeBytes+4:]), b[messageHeader:]
}

func appendPlace(b []byte, p place.Place) []byte {
	for _, n := range [3]int{p.Replica, p.Stage, p.Chunk} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

func placeAt(b []byte) place.Place {
	at := func(i int) int { return int(binary.LittleEndian.Uint32(b[4*i:])) }
	return place.Place{Replica: at(0), Stage: at(1), Chunk: at(2)}
}
