package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
)

// Version is the version of the format, the only one that this package writes and reads.
const Version = 1

const format = "gpipebench snapshot"

// Manifest says what a snapshot has.
type Manifest struct {
	Format  string `json:"format"`
	Version int    `json:"version"`
	// Step is the number of updates so far. It is also the position in the data: the next
	// mini-batch is the one with this index.
	Step     int               `json:"step"`
	Time     string            `json:"time"`            // when it was written, RFC 3339
	Function string            `json:"function_sha256"` // gpipe.Pipeline.Fingerprint
	Settings map[string]string `json:"settings"`        // see Contents
	About    map[string]string `json:"about,omitempty"`
	Slots    []SlotFile        `json:"slots"`             // of the optimiser, in its order
	Average  string            `json:"average,omitempty"` // the average's file
	Files    []File            `json:"files"`             // all but the manifest
	// SHA256 is the digest of the manifest's text with this value empty. It is the last member,
	// in every version.
	SHA256 string `json:"sha256"`
}

// SlotFile is the file of an optimiser's slot.
type SlotFile struct {
	Slot string `json:"slot"`
	File string `json:"file"`
}

// File is a file of a snapshot.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// VersionError says that a snapshot is of a version that this program does not read.
type VersionError struct{ Version int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("a snapshot of version %d: want version %d, which this program reads", e.Version, Version)
}

func (m *Manifest) has(file string) bool {
	return slices.ContainsFunc(m.Files, func(f File) bool { return f.Name == file })
}

// encode returns the text of the manifest, with its sum.
func (m *Manifest) encode() ([]byte, error) {
	signed := *m
	signed.Format, signed.Version, signed.SHA256 = format, Version, ""
	if err := signed.check(); err != nil {
		return nil, err
	}
	return signed.sign()
}

// sign returns the text with its sum, whatever the manifest says.
func (m *Manifest) sign() ([]byte, error) {
	m.SHA256 = ""
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	m.SHA256 = sumOf(append(text, '\n'))
	if text, err = json.MarshalIndent(m, "", "  "); err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

var (
	errManifest = errors.New("damaged: it is not the text that was written")

	digest    = regexp.MustCompile(`^[0-9a-f]{64}$`)
	plainFile = regexp.MustCompile(`^[a-z0-9_-]+\.(safetensors|json)$`)
)

// parseManifest reads the text of a manifest. Its sum comes first, so that a damaged
// version is damage and no other version.
func parseManifest(text []byte) (*Manifest, error) {
	var head struct {
		Format  string `json:"format"`
		Version int    `json:"version"`
		SHA256  string `json:"sha256"`
	}
	if err := json.Unmarshal(text, &head); err != nil || !digest.MatchString(head.SHA256) {
		return nil, errManifest
	}
	at := bytes.LastIndex(text, []byte(head.SHA256))
	if at < 0 || sumOf(slices.Concat(text[:at], text[at+len(head.SHA256):])) != head.SHA256 {
		return nil, errManifest
	}
	switch {
	case head.Format != format:
		return nil, fmt.Errorf("its format is %.40q: want %q", head.Format, format)
	case head.Version != Version:
		return nil, &VersionError{head.Version}
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, errManifest
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errManifest
	}
	return m, m.check()
}

// check refuses a manifest that contradicts itself, or names files that no snapshot has.
func (m *Manifest) check() error {
	if m.Step < 0 || m.Step > math.MaxInt32 {
		return fmt.Errorf("step %d: want 0 to %d", m.Step, math.MaxInt32)
	}
	seen := map[string]bool{}
	for _, f := range m.Files {
		switch {
		case !plainFile.MatchString(f.Name) || f.Name == manifestFile:
			return fmt.Errorf("a file %.60q: want a plain name that ends in .safetensors or .json", f.Name)
		case seen[f.Name]:
			return fmt.Errorf("file %s is listed twice", f.Name)
		case f.Bytes < 0 || !digest.MatchString(f.SHA256):
			return fmt.Errorf("file %s: %d bytes, SHA-256 %.70q: want its size and sum", f.Name, f.Bytes, f.SHA256)
		}
		seen[f.Name] = true
	}
	slots := map[string]bool{}
	for _, s := range m.Slots {
		if slots[s.Slot] {
			return fmt.Errorf("two slots of the optimiser named %.60q: want names of their own", s.Slot)
		}
		slots[s.Slot] = true
		if !seen[s.File] {
			return fmt.Errorf("slot %.60q of the optimiser: its file %.60q is not listed", s.Slot, s.File)
		}
	}
	switch {
	case !seen[weightsFile]:
		return fmt.Errorf("%s is not listed", weightsFile)
	case m.Average != "" && !seen[m.Average]:
		return fmt.Errorf("the average's file %.60q is not listed", m.Average)
	}
	return nil
}
