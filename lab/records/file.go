package records

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"gpipebench"
	"gpipebench/internal/files"
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
	// Fresh marks the first line of a log that was opened to measure anew: samples of its key before it do
	// not count, also if not all of them were measured again.
	Fresh bool `json:"fresh,omitempty"`

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

// beginsRecord reports whether a line that is not a record may be the beginning of one.
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

// FileKind bounds a records file: every sample of it is in memory.
var FileKind = files.Kind{What: "records", Bytes: 256 << 20}

// File returns the name of an experiment's records file in a directory of results.
func File(dir, experiment string) string { return filepath.Join(dir, "records", experiment+".jsonl") }

// Open reads the samples of a key from a records file, and opens the file to append to
// it. If fresh, the samples do not count, and no longer once the log has written a line. No other process may have the file open so.
func Open(name string, k Key, fresh bool) (*Log, error) {
	l := New(k)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := files.OpenAppend(name, FileKind)
	if errors.Is(err, files.ErrInUse) {
		return nil, fmt.Errorf("%w: wait for it, or choose another directory", err)
	}
	if err != nil {
		return nil, err
	}
	all, rest, err := l.read(f, name)
	l.accept(all, name, func(r *Record) bool { return r.Key == k && !fresh })
	if err == nil && rest != nil {
		err = l.setAside(f, name, rest)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	l.file, l.out, l.fresh = f, f, fresh
	l.Reused = len(l.Names)
	if fresh {
		if err := l.forget(); err != nil {
			f.Close()
			return nil, err
		}
	}
	return l, nil
}

// Load reads a records file only to be read, such as the reference's: the samples of
// the experiment's key that was written last.
func Load(name, experiment string) (*Log, error) {
	l, err := LoadLast(name, func(k Key) bool { return k.Experiment == experiment })
	if l == nil && err == nil {
		err = fmt.Errorf("%s has no sample of %s", name, experiment)
	}
	return l, err
}

// LoadLast is Load of the last key that of accepts; nil: no sample has one.
func LoadLast(name string, of func(Key) bool) (*Log, error) {
	f, _, err := files.OpenRegular(name, FileKind)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	l := New(Key{})
	all, _, err := l.read(f, name)
	if err != nil {
		return nil, err
	}
	for _, r := range all {
		if r.Sample != "" && of(r.Key) {
			l.Key = r.Key
		}
	}
	if l.Key.Experiment == "" {
		return nil, nil
	}
	l.accept(all, name, func(r *Record) bool { return r.Key == l.Key })
	return l, nil
}

// setAside moves what is after the last newline of a records file to another file next
// to it, unless it is a whole record.
func (l *Log) setAside(f *os.File, name string, rest []byte) error {
	if _, err := DecodeRecord(rest); err == nil {
		_, err := f.WriteString("\n")
		return err
	}
	aside, err := files.OpenAppend(name+".torn", FileKind)
	if err != nil {
		return err
	}
	_, err = aside.Write(append(rest, '\n'))
	if e := aside.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if where := ", set aside in " + aside.Name(); l.Torn != "" {
		l.Torn += where
	} else {
		l.Damaged += where
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	return f.Truncate(st.Size() - int64(len(rest)))
}

// line is a line of a records file whose checksum is right, from 1.
type line struct {
	n int
	*Record
}

// read reads the records of a file and returns what is after its last newline, nil if nothing is.
// The log gets none of them, but what it says of lines that are damaged or torn.
func (l *Log) read(f *os.File, name string) (all []line, rest []byte, err error) {
	var changed []int
	defer func() { l.Damaged = linesOf(name, changed) }()
	lines := bufio.NewReader(f)
	for n := 1; ; n++ {
		text, err := files.ReadLine(lines, MaxRecord)
		if errors.Is(err, files.ErrLongLine) {
			return nil, nil, fmt.Errorf("%s:%d: %w, want a record of up to %s", name, n, err, files.Size(MaxRecord))
		}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
			if err != nil {
				rest = text
			}
			r, bad := DecodeRecord(trimmed)
			switch {
			case bad != nil && rest != nil && beginsRecord(trimmed):
				l.Torn = fmt.Sprintf("%s:%d", name, n)
			case bad != nil:
				changed = append(changed, n)
			default:
				all = append(all, line{n, r})
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return all, rest, nil
		case err != nil:
			return nil, nil, err
		}
	}
}

// accept takes in the records of a file that want accepts. Samples of a session that no line before
// describes do not count.
func (l *Log) accept(all []line, name string, want func(*Record) bool) {
	var unknown []int
	for _, r := range all {
		if r.Fresh && want(r.Record) {
			unknown, l.Names, l.Samples = nil, nil, map[string]*Record{}
		}
		switch {
		case !want(r.Record):
		case r.Provenance == nil && l.sessions[r.Session] == nil:
			unknown = append(unknown, r.n)
		default:
			l.Put(r.Record)
		}
	}
	if len(unknown) > 0 {
		l.Damaged = strings.TrimPrefix(l.Damaged+", "+linesOf(name, unknown)+" (of a session that no line before describes)", ", ")
	}
}

// linesOf names lines of a file, the first few of many.
func linesOf(name string, numbers []int) string {
	const few = 4
	var all []string
	for _, n := range numbers[:min(few, len(numbers))] {
		all = append(all, fmt.Sprintf("%s:%d", name, n))
	}
	text := strings.Join(all, ", ")
	if more := len(numbers) - few; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Key says which samples may be compared: those of one spec, one profile and, if they
// are timed, one machine. What measured them is in their sessions' provenance.
type Key struct {
	Experiment string `json:"experiment"`
	Profile    string `json:"profile"`
	Spec       string `json:"spec"`    // hash of the spec's text
	Machine    string `json:"machine"` // hash of what times depend on; "" where nothing is timed
}

// Provenance says where numbers come from: what was run, on what, when.
type Provenance struct {
	Time    string            `json:"time"` // RFC 3339, UTC
	Commit  string            `json:"commit,omitempty"`
	Dirty   bool              `json:"dirty"`            // the checkout differed from the commit
	Engine  string            `json:"engine,omitempty"` // gpipebench.Engine; "" of records of earlier versions
	Go      string            `json:"go"`
	Modules map[string]string `json:"modules"`
	Machine machine.Machine   `json:"machine"`
	Load    float64           `json:"load"` // the system's load average of the last minute; -1: unknown
	Process *Process          `json:"process,omitempty"`
}

// Process is one that measures.
type Process struct {
	ID int `json:"id"` // the system's
	// Round, from 0, is the only one that the process measures; nil if it measures
	// whatever there is.
	Round *int `json:"round,omitempty"`
}

// Commit returns the commit that the build has stamped on this program, and whether the checkout
// differed from it; "" if it has none, as with go test, and with go run unless -buildvcs=true.
func Commit() (commit string, dirty bool) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value
			case "vcs.modified":
				dirty = s.Value == "true"
			}
		}
	}
	return commit, dirty
}

// provenance returns this process's, now.
func provenance() Provenance {
	p := Provenance{
		Time: time.Now().UTC().Format(time.RFC3339), Go: runtime.Version(), Engine: gpipebench.Engine(),
		Modules: map[string]string{}, Machine: machine.This(), Load: machine.LoadAverage(),
	}
	p.Commit, p.Dirty = Commit()
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			p.Modules[m.Path] = m.Version
		}
	}
	return p
}
