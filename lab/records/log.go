package records

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"gpipebench/internal/floatjson"
	"gpipebench/internal/machine"
)

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
	fresh    bool                           // the next line is the first of a log that measures anew
	out      io.Writer                      // what lines are written to: the file, or another process; nil: nothing
	process  Process                        // this one, as a session's line names it
	begun    time.Time                      // with the experiment
	spent    float64                        // processor seconds of this process until then
	session  string                         // this process's; "" until something is added
	sessions map[string]*Provenance         // by id
	Names    []string                       // of the samples, in the order in which they came
	Samples  map[string]*Record             // by name
	added    func(name string, data []byte) // see Observe
}

// New returns a log without a file.
func New(k Key) *Log {
	return &Log{Key: k, process: Process{ID: os.Getpid()}, begun: time.Now(), spent: machine.ProcessorSeconds(), sessions: map[string]*Provenance{}, Samples: map[string]*Record{}}
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
		Elapsed: rounded(time.Since(l.begun).Seconds()), Processor: max(0, rounded(machine.ProcessorSeconds()-l.spent)),
	}
	if err := l.write(r); err != nil {
		return err
	}
	return l.Finished(name)
}

// rounded is a time in seconds as records have it, to a hundredth.
func rounded(seconds float64) float64 { return math.Round(100*seconds) / 100 }

// write writes a record's line in one piece, and takes the record in.
func (l *Log) write(r *Record) error {
	r.Fresh, l.fresh = l.fresh, false
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
func (l *Log) PrintTo(w io.Writer, round int) { l.out, l.process.Round, l.spent = w, &round, 0 }

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

// Get reads a sample. It refuses one that is missing, lacks a member that this version
// writes, or contradicts itself, by its Check, as may those of another version of this program
// or those changed by hand.
func (l *Log) Get(name string, into any) error {
	r, ok := l.Samples[name]
	if !ok {
		return fmt.Errorf("records of %s (%s): no sample %s", l.Key.Experiment, l.Key.Profile, name)
	}
	err := floatjson.Complete("the sample", r.Data, into)
	if c, checked := into.(interface{ Check() error }); err == nil && checked {
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

// Close closes the log's file.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}
