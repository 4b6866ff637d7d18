package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"math"
	"path/filepath"
	"regexp"
	"time"

	"golang.org/x/sync/errgroup"

	"gpipebench/gpipe"
	"gpipebench/internal/failure"
	"gpipebench/internal/files"
	"gpipebench/nn/safetensors"
)

// Contents is what a snapshot is made of.
type Contents struct {
	State    *gpipe.State
	Metadata map[string]string // of the file of weights, see gpipe.Trainer.Save; nil: none
	Settings map[string]string // what decides the bits of the steps that follow, by name
	About    map[string]string // what decides nothing, such as the program's version
	Progress []byte            // JSON of the program that trains; nil: none
	Best     string            // a file with the best weights so far, which is copied; "": none
}

// The files of a snapshot besides the optimiser's.
const (
	manifestFile = "manifest.json"
	weightsFile  = "weights.safetensors"
	averageFile  = "average.safetensors"
	bestFile     = "best.safetensors"
	progressFile = "progress.json"
)

var plainSlot = regexp.MustCompile(`^[a-z_]+$`)

// slotFile is the name of the file of an optimiser's slot number index.
func slotFile(index int, slot string) string {
	if !plainSlot.MatchString(slot) {
		slot = fmt.Sprint(index)
	}
	return "optimizer-" + slot + ".safetensors"
}

// Name returns the name of the snapshot after a step in a directory of them.
func Name(dir string, step int) string { return filepath.Join(dir, fmt.Sprintf("step-%010d", step)) }

// Write writes a snapshot into a directory, whole or not at all. One of the same step is
// replaced.
func Write(dir string, c Contents) error {
	s := c.State
	m := &Manifest{
		Step: s.Steps, Time: time.Now().UTC().Format(time.RFC3339), Function: s.Function, Settings: c.Settings, About: c.About,
		Slots: []SlotFile{},
	}
	type file struct {
		name  string
		write func(io.Writer) error
	}
	all := []file{{weightsFile, func(w io.Writer) error { return s.WriteWeights(w, c.Metadata) }}}
	tensors := func(name string, values []gpipe.NamedWeights) {
		all = append(all, file{name, func(w io.Writer) error { return gpipe.WriteNamed(w, values, nil) }})
	}
	for i, slot := range s.Slots {
		m.Slots = append(m.Slots, SlotFile{slot.Name, slotFile(i, slot.Name)})
		tensors(m.Slots[i].File, slot.Values)
	}
	if s.Average != nil {
		m.Average = averageFile
		tensors(averageFile, s.Average)
	}
	if c.Progress != nil {
		all = append(all, file{progressFile, func(w io.Writer) error { _, err := w.Write(c.Progress); return err }})
	}
	if c.Best != "" {
		all = append(all, file{bestFile, func(w io.Writer) error { return copyTo(w, c.Best) }})
	}
	m.Files = make([]File, len(all))
	return files.WriteDir(Name(dir, s.Steps), func(own string) error {
		var group errgroup.Group // the disk writes one file while the sum of another is computed
		for i, f := range all {
			group.Go(func() (err error) {
				defer failure.Catch(&err)
				m.Files[i], err = writeFile(own, f.name, f.write)
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		text, err := m.encode()
		if err != nil {
			return err
		}
		_, err = writeFile(own, manifestFile, func(w io.Writer) error { _, err := w.Write(text); return err })
		return err
	})
}

func copyTo(w io.Writer, name string) error {
	r, _, err := files.OpenRegular(name, files.Kind{What: "a file of weights", Bytes: math.MaxInt64})
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.CopyBuffer(w, r, make([]byte, 1<<20))
	return err
}

// writeFile writes a file and describes it.
func writeFile(dir, name string, write func(io.Writer) error) (f File, err error) {
	sum := summing{hash: sha256.New()}
	err = files.Write(filepath.Join(dir, name), func(w io.Writer) error {
		sum.to = w
		return write(&sum)
	})
	if err != nil {
		return f, fmt.Errorf("%s: %w", name, files.Reason(err))
	}
	return File{name, sum.bytes, hex.EncodeToString(sum.hash.Sum(nil))}, nil
}

// summing is a writer that hashes what passes, while it is written.
type summing struct {
	to    io.Writer
	hash  hash.Hash
	bytes int64
}

func (s *summing) Write(p []byte) (int, error) {
	hashed := make(chan struct{})
	go func() {
		s.hash.Write(p)
		close(hashed)
	}()
	n, err := s.to.Write(p)
	<-hashed
	s.bytes += int64(n)
	return n, err
}

// Snapshot is one on disk, all of whose files have been found to be as they were written.
type Snapshot struct {
	Name string // of its folder
	Manifest
}

// Open reads a snapshot's manifest and compares every file with it. An error names the
// snapshot, and the file that is damaged, missing or of another version (*VersionError).
func Open(name string) (*Snapshot, error) {
	s := &Snapshot{Name: name}
	if err := s.open(); err != nil {
		return nil, fmt.Errorf("%s: %w", files.Printable(name), err)
	}
	return s, nil
}

func (s *Snapshot) open() error {
	text, err := files.Read(filepath.Join(s.Name, manifestFile), files.Kind{What: "a snapshot's manifest", Bytes: maxManifest})
	if err != nil {
		return fmt.Errorf("%s: %w", manifestFile, files.Reason(err))
	}
	m, err := parseManifest(text)
	if err != nil {
		return fmt.Errorf("%s: %w", manifestFile, err)
	}
	if at := filepath.Base(s.Name); at != filepath.Base(Name("", m.Step)) {
		return fmt.Errorf("%s: says that this is step %d, and the folder is %s", manifestFile, m.Step, files.Printable(at))
	}
	s.Manifest = *m
	for _, f := range m.Files {
		if err := s.compare(f); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// compare compares a file with what the manifest says of it.
func (s *Snapshot) compare(f File) error {
	r, size, err := files.OpenRegular(filepath.Join(s.Name, f.Name), files.Kind{What: "a snapshot's file", Bytes: math.MaxInt64})
	if err != nil {
		return files.Reason(err)
	}
	defer r.Close()
	if size != f.Bytes {
		return fmt.Errorf("damaged: %d bytes, and %d were written", size, f.Bytes)
	}
	h := sha256.New()
	if _, err := io.CopyBuffer(h, r, make([]byte, 1<<20)); err != nil {
		return files.Reason(err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("damaged: its SHA-256 is %s, and %s was written", got, f.SHA256)
	}
	return nil
}

// State reads the state.
func (s *Snapshot) State() (*gpipe.State, error) {
	state := &gpipe.State{Steps: s.Step, Function: s.Function}
	var err error
	if state.Weights, err = s.tensors(weightsFile); err != nil {
		return nil, err
	}
	for _, slot := range s.Slots {
		values, err := s.tensors(slot.File)
		if err != nil {
			return nil, err
		}
		state.Slots = append(state.Slots, gpipe.Slot{Name: slot.Slot, Values: values})
	}
	if s.Average != "" {
		if state.Average, err = s.tensors(s.Average); err != nil {
			return nil, err
		}
	}
	return state, nil
}

// Metadata reads the metadata of the file of weights.
func (s *Snapshot) Metadata() (map[string]string, error) {
	f, err := safetensors.Open(filepath.Join(s.Name, weightsFile))
	if err != nil {
		return nil, err
	}
	return f.Metadata, f.Close()
}

// tensors reads a file of tensors in the order of its data.
func (s *Snapshot) tensors(file string) ([]gpipe.NamedWeights, error) {
	f, err := safetensors.Open(filepath.Join(s.Name, file))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	values := []gpipe.NamedWeights{} // an average of no parameters is one all the same
	for i, t := range f.Tensors {
		v := gpipe.NamedWeights{Path: t.Name, Shape: t.Shape, Data: make([]float32, t.Elems())}
		if err := f.Floats(i, v.Data); err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	return values, nil
}

// Progress reads what the program that trained had reported, nil if it had stored nothing.
func (s *Snapshot) Progress() ([]byte, error) {
	if !s.has(progressFile) {
		return nil, nil
	}
	text, err := files.Read(filepath.Join(s.Name, progressFile), files.Kind{What: "a snapshot's progress", Bytes: maxProgress})
	return bytes.TrimSpace(text), err
}

// Best is the name of the file with the best weights so far, "" if there is none.
func (s *Snapshot) Best() string {
	if !s.has(bestFile) {
		return ""
	}
	return filepath.Join(s.Name, bestFile)
}

// Limits on what is read as a whole.
const (
	maxManifest = 16 << 20
	maxProgress = 1 << 30
)
