package sockets

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gpipebench/gpipe/transport"
)

// A connection begins with a proof from each side that it knows the secret:
//
//	caller:   magic, 32 random bytes
//	listener: 32 random bytes, HMAC of "listener", both
//	caller:   length of hello, hello, HMAC of "caller", both, hello
//	listener: a frame that takes it, or says why not

const (
	magic      = "gpipebench sockets 3\n"
	nonceBytes = 32
	maxHello   = 1 << 20
	// A caller may take openingLimit for its first message, handshakeLimit for all.
	openingLimit   = time.Second
	handshakeLimit = 5 * time.Second
	// places is how many callers may be proving themselves at a time.
	places = 128
)

// hello is what a caller wants.
type hello struct {
	Rank  int
	Host  string
	Order string // of bytes in a float32

	// Line is the route of a line of tensors; nil: it is the connection for frames.
	Line *transport.Route `json:",omitempty"`

	// To rank 0 only.
	Address string `json:",omitempty"` // where the caller listens
	Facts   []Fact `json:",omitempty"`
}

// errSecret says that the other side has another secret.
var errSecret = errors.New("the other side has another secret")

func proof(secret []byte, role string, nonces ...[]byte) []byte {
	h := hmac.New(sha256.New, secret)
	fmt.Fprintf(h, "%s %s", magic, role)
	for _, n := range nonces {
		h.Write(n)
	}
	return h.Sum(nil)
}

// call is the caller's part, but for the last frame. The connection's deadline bounds it.
func call(conn net.Conn, secret []byte, say hello) error {
	own := make([]byte, nonceBytes)
	rand.Read(own) // never fails
	if _, err := conn.Write(append([]byte(magic), own...)); err != nil {
		return err
	}
	var their [nonceBytes + sha256.Size]byte
	if _, err := io.ReadFull(conn, their[:]); err != nil {
		return err
	}
	nonce := their[:nonceBytes]
	if !hmac.Equal(their[nonceBytes:], proof(secret, "listener", own, nonce)) {
		return errSecret
	}
	say.Order = byteOrder()
	text, err := json.Marshal(say)
	if err != nil {
		return err
	}
	if len(text) > maxHello {
		return fmt.Errorf("%d bytes to say hello: want at most %d", len(text), maxHello)
	}
	message := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	message = append(message, text...)
	message = append(message, proof(secret, "caller", own, nonce, text)...)
	_, err = conn.Write(message)
	return err
}

// opening is the caller's first message: its random bytes.
func opening(conn io.Reader) ([]byte, error) {
	b := make([]byte, len(magic)+nonceBytes)
	if _, err := io.ReadFull(conn, b); err != nil {
		return nil, err
	}
	nonce, ours := bytes.CutPrefix(b, []byte(magic))
	if !ours {
		return nil, errors.New("what came is not of this program, or of another version")
	}
	return nonce, nil
}

// answerCall is the listener's part after the opening. It reads no byte beyond the caller's.
func answerCall(conn io.ReadWriter, secret, their []byte) (said hello, err error) {
	own := make([]byte, nonceBytes)
	rand.Read(own)
	if _, err := conn.Write(append(own, proof(secret, "listener", their, own)...)); err != nil {
		return said, err
	}
	var length [4]byte
	if _, err := io.ReadFull(conn, length[:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = errors.New("the caller has left, as one with another secret does")
		}
		return said, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxHello {
		return said, fmt.Errorf("a hello of %d bytes: want at most %d", n, maxHello)
	}
	rest := make([]byte, n+sha256.Size)
	if _, err := io.ReadFull(conn, rest); err != nil {
		return said, err
	}
	text := rest[:n]
	if !hmac.Equal(rest[n:], proof(secret, "caller", their, own, text)) {
		return said, errSecret
	}
	if err := json.Unmarshal(text, &said); err != nil {
		return said, err
	}
	if said.Order != byteOrder() {
		return said, fmt.Errorf("rank %d on %s is %s-endian, this machine %s-endian: want one kind", said.Rank, said.Host, said.Order, byteOrder())
	}
	return said, nil
}
