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
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

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

	Sample string          `json:"sample,omitempty"` // name of a sample
	Seed   uint64          `json:"seed,omitempty"`
	Time   string          `json:"time,omitempty"`
	Load   *float64        `json:"load,omitempty"`
	RSS    int64           `json:"rss,omitempty"` // the most memory that the process had had resident by then, in bytes
	Data   json.RawMessage `json:"data,omitempty"`
	// Design is the digest of the design by which the sample is judged; "": none was registered.
	Design string `json:"design,omitempty"`
}

// MaxRecord is how long a line may be: a hundred times the longest so far.
const MaxRecord = 8 << 20

// FileKind bounds a records file: every sample of it is in memory.
var FileKind = files.Kind{What: "records", Bytes: 256 << 20}

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

// Log is the samples of one key, in memory and, if it has a file, appended to the file
// as soon as they come. A file may hold samples of other keys too; they are left alone.
type Log struct {
	Key     Key
	Session Provenance // of the last session that has samples here
	// Reused is how many samples the file had when the log was opened.
	Reused int
	// Damaged names the lines that do not count, if any: those whose checksum is not
	// that of their content, and samples of a session that no line before them
	// describes.
	Damaged string
	// Torn names the file's last line if it is incomplete, as its writer was stopped.
	// Open sets it aside.
	Torn string
	// Design is the digest that samples get, and Admits refuses one of a seed that the design does
	// not name; nil: there is no design.
	Design string
	Admits func(seed uint64) error
	// Earlier are other logs whose samples count as this key's where they have the same name: see
	// Take and TakeTimed. Taken counts the samples that were taken.
	Earlier []*Log
	Taken   int

	file     *os.File
	out      io.Writer                      // what lines are written to: the file, or another process; nil: nothing
	process  Process                        // this one, as a session's line names it
	session  string                         // this process's; "" until something is added
	sessions map[string]*Provenance         // by id
	Names    []string                       // of the samples, in the order in which they came
	Samples  map[string]*Record             // by name
	added    func(name string, data []byte) // see Observe
}

// File returns the name of an experiment's records file in a directory of results.
func File(dir, experiment string) string { return filepath.Join(dir, "records", experiment+".jsonl") }

// New returns a log without a file.
func New(k Key) *Log {
	return &Log{Key: k, process: Process{ID: os.Getpid()}, sessions: map[string]*Provenance{}, Samples: map[string]*Record{}}
}

// Open reads the samples of a key from a records file, and opens the file to append to
// it. If fresh, the samples do not count. No other process may have the file open so.
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
	l.file, l.out = f, f
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

// Take takes a sample in which nothing is timed from Earlier, if the log lacks it and they have it.
func (l *Log) Take(name string) error {
	for _, from := range l.Earlier {
		if from.Has(name) && !l.Has(name) {
			return l.take(from, name)
		}
	}
	return nil
}

// TakeTimed takes all timed samples from one of Earlier, of the same machine. If none has all of them, it
// takes none: ratios are of times that were measured together.
func (l *Log) TakeTimed(names []string) error {
	for _, from := range l.Earlier {
		if len(from.Lacks(names)) == 0 && len(l.Lacks(names)) == len(names) && from.Key.Machine == l.Key.Machine {
			return l.take(from, names...)
		}
	}
	return nil
}

// take takes samples over, with the sessions that made them.
func (l *Log) take(from *Log, names ...string) error {
	for _, name := range names {
		r := *from.Samples[name]
		r.Key = l.Key
		if l.sessions[r.Session] == nil {
			if err := l.write(&Record{Session: r.Session, Key: l.Key, Provenance: from.sessions[r.Session]}); err != nil {
				return err
			}
		}
		if err := l.write(&r); err != nil {
			return err
		}
	}
	l.Taken += len(names)
	return nil
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
		if err != nil && len(text) > 0 {
			rest = text
		}
		if trimmed := bytes.TrimSpace(text); len(trimmed) > 0 {
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

// recordMark is how a record's line begins.
const recordMark = `{"session":"`

// beginsRecord reports whether a line that is no record may be the beginning of one.
func beginsRecord(line []byte) bool {
	n := min(len(line), len(recordMark))
	return string(line[:n]) == recordMark[:n]
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

// Put takes in a record: a session's, or a sample.
func (l *Log) Put(r *Record) {
	if r.Provenance != nil {
		l.sessions[r.Session] = r.Provenance
		return
	}
	if !l.Has(r.Sample) {
		l.Names = append(l.Names, r.Sample)
	}
	l.Samples[r.Sample] = r
	if s := l.sessions[r.Session]; s != nil {
		l.Session = *s
	}
	if l.added != nil {
		l.added(r.Sample, r.Data)
	}
}

// Has reports whether a sample is there.
func (l *Log) Has(name string) bool { _, ok := l.Samples[name]; return ok }

// Add adds a sample.
func (l *Log) Add(name string, seed uint64, data any) error {
	if l.Admits != nil {
		if err := l.Admits(seed); err != nil {
			return fmt.Errorf("%s, sample %s: %w", l.Key.Experiment, name, err)
		}
	}
	raw, err := floatjson.Marshal(data)
	if err != nil {
		return err
	}
	if l.session == "" {
		here := provenance()
		here.Process = &l.process
		l.session = machine.Digest(here.Time, here.Commit, l.Key.Experiment, l.Key.Profile, fmt.Sprint(here.Process.ID))
		if err := l.write(&Record{Session: l.session, Key: l.Key, Provenance: &here}); err != nil {
			return err
		}
	}
	load := machine.LoadAverage()
	r := &Record{
		Session: l.session, Key: l.Key, Sample: name, Seed: seed,
		Time: time.Now().UTC().Format(time.RFC3339), Load: &load, RSS: machine.MaxRSS(), Data: raw, Design: l.Design,
	}
	if err := l.write(r); err != nil {
		return err
	}
	return l.Finished(name)
}

// write writes a record's line in one piece, and takes the record in.
func (l *Log) write(r *Record) error {
	if l.out != nil {
		line, err := r.Encode()
		if err != nil {
			return err
		}
		if _, err := l.out.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	l.Put(r)
	return nil
}

// Adopt takes in a line from another process, which measures some samples for this
// log.
func (l *Log) Adopt(line []byte, names []string) error {
	r, err := DecodeRecord(line)
	switch {
	case err != nil:
		return fmt.Errorf("it printed what is no record, %.60q: %w", line, err)
	case r.Key != l.Key:
		return fmt.Errorf("it printed a record of %s, profile %s, of another spec, program or machine", r.Experiment, r.Profile)
	case r.Provenance == nil && !slices.Contains(l.Lacks(names), r.Sample):
		return fmt.Errorf("it printed a sample that was not asked for: %q", r.Sample)
	}
	return l.write(r)
}

// Observe makes the log call f, unless nil, with each sample that comes from now on.
func (l *Log) Observe(f func(name string, data []byte)) { l.added = f }

// Snapshot returns the data of all samples, for another process.
func (l *Log) Snapshot() map[string]json.RawMessage {
	all := map[string]json.RawMessage{}
	for name, sample := range l.Samples {
		all[name] = sample.Data
	}
	return all
}

// Restore takes in the samples of another process's snapshot.
func (l *Log) Restore(samples map[string]json.RawMessage) {
	for name, data := range samples {
		l.Put(&Record{Sample: name, Data: data})
	}
}

// PrintTo makes the log write new lines to the process that asked this one to measure a
// round.
func (l *Log) PrintTo(w io.Writer, round int) { l.out, l.process.Round = w, &round }

// Origin returns the session that a sample is from, nil if there is none.
func (l *Log) Origin(name string) *Provenance {
	if r, ok := l.Samples[name]; ok {
		return l.sessions[r.Session]
	}
	return nil
}

// Lacks returns those of some samples that are not there.
func (l *Log) Lacks(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), l.Has)
}

// Measuring lists the sessions that samples are from, in the order of time.
func (l *Log) Measuring() []Provenance {
	ids := map[string]bool{}
	for _, r := range l.Samples {
		ids[r.Session] = true
	}
	var all []Provenance
	for id := range ids {
		if s := l.sessions[id]; s != nil {
			all = append(all, *s)
		}
	}
	slices.SortFunc(all, func(a, b Provenance) int { return strings.Compare(a.Time, b.Time) })
	return all
}

// Seeds lists the seeds of the samples, in ascending order. Samples without random
// numbers have none.
func (l *Log) Seeds() []uint64 {
	seeds := map[uint64]bool{}
	for _, r := range l.Samples {
		if r.Seed != 0 {
			seeds[r.Seed] = true
		}
	}
	return slices.Sorted(maps.Keys(seeds))
}

// Checked is a sample that checks what its readers rely on besides its members' types,
// such as lists of one length.
type Checked interface{ Check() error }

// Get reads a sample. It refuses one that is missing, lacks a member that this version
// writes, or contradicts itself, as may those of another version of this program or
// those changed by hand.
func (l *Log) Get(name string, into any) error {
	r, ok := l.Samples[name]
	if !ok {
		return fmt.Errorf("records of %s (%s): no sample %s", l.Key.Experiment, l.Key.Profile, name)
	}
	err := floatjson.Complete("the sample", r.Data, into)
	if c, checked := into.(Checked); err == nil && checked {
		err = c.Check()
	}
	if err != nil {
		return l.Strange(name, err)
	}
	return nil
}

// Strange returns the error that a sample is not what this version writes, and why.
func (l *Log) Strange(name string, why error) error {
	return fmt.Errorf("records of %s (%s): sample %s is not what this version writes (%w): want others, by --fresh", l.Key.Experiment, l.Key.Profile, name, why)
}

// CheckHash refuses what is not a SHA-256 in hexadecimal digits.
func CheckHash(name, hash string) error {
	if bytes, err := hex.DecodeString(hash); err != nil || len(bytes) != sha256.Size {
		return fmt.Errorf("%q is %.70q, want a SHA-256", name, hash)
	}
	return nil
}

// Close closes the log's file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
