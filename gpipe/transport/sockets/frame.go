package sockets

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"gpipebench/gpipe/place"
)

// frame is a message on the connection of two processes: a header of frameHeader bytes
// (kind, session, length of the body; little-endian) and the body.
type frame struct {
	kind    kind
	session uint64
	body    [][]byte // its pieces
}

type kind uint8

const (
	beat    kind = 1 + iota // a sign of life: the sender's time
	answer                  // to a beat: its time, and that of the answer
	message                 // of a gathering: group, place, content
	aborted                 // a session was: a cause
	gone                    // another process is: its rank, why
	left                    // the sender has ended, and takes no part in this and later sessions: a cause, "" as it was to be
	noted                   // left has been read
	table                   // of all ranks' addresses, by rank 0
	refused                 // by rank 0: why there will be no run
)

const (
	frameHeader = 1 + 8 + 8
	placeBytes  = 3 * 4
	// messageHeader is the group's first and last place and size, and the sender.
	messageHeader = placeBytes + placeBytes + 4 + placeBytes
	maxText       = 1 << 16
	maxTable      = 1 << 20
	// maxMessage bounds a message of a gathering, such as a process's weights.
	maxMessage = 1 << 34
)

// bounds are the least and most bytes of the bodies of each kind.
var bounds = map[kind][2]uint64{
	beat: {8, 8}, answer: {16, 16}, message: {messageHeader, maxMessage}, aborted: {1, maxText}, gone: {4, maxText},
	left: {1, maxText}, noted: {0, 0}, table: {2, maxTable}, refused: {0, maxText},
}

// length is the number of bytes of the body.
func (f frame) length() (n uint64) {
	for _, piece := range f.body {
		n += uint64(len(piece))
	}
	return n
}

// check is an error if there are no frames of such a kind and length.
func check(k kind, length uint64) error {
	b, ok := bounds[k]
	if !ok {
		return fmt.Errorf("a frame of kind %d: want 1 to %d", k, refused)
	}
	if length < b[0] || length > b[1] {
		return fmt.Errorf("a frame of kind %d with %d bytes: want %d to %d", k, length, b[0], b[1])
	}
	return nil
}

// header is the frame's header.
func (f frame) header() []byte {
	b := make([]byte, 0, frameHeader)
	b = append(b, byte(f.kind))
	b = binary.LittleEndian.AppendUint64(b, f.session)
	return binary.LittleEndian.AppendUint64(b, f.length())
}

// readFrame reads the next frame. It takes memory only for bytes that have come.
func readFrame(r io.Reader) (frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(header[0]), session: binary.LittleEndian.Uint64(header[1:])}
	length := binary.LittleEndian.Uint64(header[9:])
	if err := check(f.kind, length); err != nil {
		return frame{}, err
	}
	var body []byte
	for uint64(len(body)) < length {
		have := len(body)
		more := int(min(length-uint64(have), uint64(max(have, 1<<16))))
		body = slices.Grow(body, more)[:have+more]
		if n, err := io.ReadFull(r, body[have:]); err != nil {
			return frame{}, unexpected(err, have+n)
		}
	}
	f.body = [][]byte{body}
	return f, nil
}

// unexpected is err, which is not io.EOF within something.
func unexpected(err error, read int) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("it ends after %d bytes of a message: %w", read, io.ErrUnexpectedEOF)
	}
	return err
}

// text is the body as text.
func (f frame) text() string { return string(f.body[0]) }

// textFrame is a frame with a text, of which at most maxText-4 bytes are sent.
func textFrame(k kind, session uint64, text string) frame {
	return frame{k, session, [][]byte{[]byte(text[:min(len(text), maxText-4)])}}
}

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

// cause is what causeFrame was told.
func (f frame) cause() (text string, canceled bool) { return string(f.body[0][1:]), f.body[0][0] == 1 }

func goneFrame(rank int, cause string) frame {
	f := textFrame(gone, 0, cause)
	f.body = [][]byte{binary.LittleEndian.AppendUint32(nil, uint32(rank)), f.body[0]}
	return f
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
