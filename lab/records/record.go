package records

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"gpipebench/internal/floatjson"
	"gpipebench/internal/machine"
)

// Record is one line of a records file: a session, which says where samples come from,
// or a sample. The line ends with a checksum of what is before it.
type Record struct {
	Session string `json:"session"` // the session's id, its own or that of the sample
	Key
	Sources string `json:"sources,omitempty"` // in keys of earlier versions; has no meaning

	Provenance *Provenance `json:"provenance,omitempty"` // of a session

	Sample string   `json:"sample,omitempty"` // name of a sample
	Seed   uint64   `json:"seed,omitempty"`
	Time   string   `json:"time,omitempty"`
	Load   *float64 `json:"load,omitempty"`
	RSS    int64    `json:"rss,omitempty"` // the most memory that the process had had resident by then, in bytes
	// Elapsed and Processor are the seconds, and the processor seconds of the process, since it began with the
	// experiment; of a round's process, since it was started. 0: not recorded, as in records of earlier versions.
	Elapsed   float64 `json:"elapsed,omitempty"`
	Processor float64 `json:"processor,omitempty"`

	Data json.RawMessage `json:"data,omitempty"`
	// Design is the digest of the design by which the sample is judged; "": none was registered.
	Design string `json:"design,omitempty"`
}

// MaxRecord is how long a line may be: a hundred times the longest so far.
const MaxRecord = 8 << 20

const sumMark = `,"sha256":"`

// Encode returns the record's line, without the newline.
func (r *Record) Encode() ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	body := line[:len(line)-1]
	return fmt.Appendf(body[:len(body):len(body)], `%s%s"}`, sumMark, machine.Digest(string(body))), nil
}

var errDamaged = errors.New("the line is damaged: its checksum is not that of its content")

// DecodeRecord reads a line and checks its sum.
func DecodeRecord(line []byte) (*Record, error) {
	at := bytes.LastIndex(line, []byte(sumMark))
	if at < 0 {
		return nil, errDamaged
	}
	sum, ok := bytes.CutSuffix(line[at+len(sumMark):], []byte(`"}`))
	if !ok || string(sum) != machine.Digest(string(line[:at])) {
		return nil, errDamaged
	}
	var r Record
	d := json.NewDecoder(bytes.NewReader(append(line[:at:at], '}')))
	d.DisallowUnknownFields()
	if err := d.Decode(&r); err != nil {
		return nil, floatjson.Plain(err)
	}
	return &r, nil
}

// recordMark is how a record's line begins.
const recordMark = `{"session":"`

// beginsRecord reports whether a line that is no record may be the beginning of one.
func beginsRecord(line []byte) bool {
	n := min(len(line), len(recordMark))
	return string(line[:n]) == recordMark[:n]
}

// CheckHash refuses what is not a SHA-256 in hexadecimal digits.
func CheckHash(name, hash string) error {
	if bytes, err := hex.DecodeString(hash); err != nil || len(bytes) != sha256.Size {
		return fmt.Errorf("%q is %.70q, want a SHA-256", name, hash)
	}
	return nil
}
