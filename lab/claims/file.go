package claims

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"gpipebench/internal/files"
	"gpipebench/internal/floatjson"
	"gpipebench/internal/units"
)

// LedgerFile is the file of a directory of results that has the verdicts, for programs:
// of each claim what the paper says, how it is judged, what it takes and what came out.
// Only the reference has it.
const LedgerFile = "claims.json"

// entry is a claim in that file. Figures have four digits.
type entry struct {
	ID        string     `json:"id"`
	Same      string     `json:"same_as,omitempty"` // the claim that counts for this one
	Ledger    string     `json:"ledger"`
	Claim     string     `json:"claim"`
	Version   string     `json:"version"`
	Where     string     `json:"where"`
	Kind      Kind       `json:"kind"`
	Basis     Basis      `json:"basis,omitempty"`
	Paper     string     `json:"paper,omitempty"`
	Reading   string     `json:"reading,omitempty"`
	Tolerance *Tolerance `json:"tolerance,omitempty"`
	Here      string     `json:"here,omitempty"`     // our figure, with its interval
	Over      string     `json:"unstated,omitempty"` // what it becomes over what the paper leaves open
	Design    string     `json:"design,omitempty"`
	Compared  *Compared  `json:"compared,omitempty"` // what the design judges
	Why       string     `json:"why,omitempty"`      // of the design's verdict, and of a figure that only the tolerance accepts
	Verdict   Verdict    `json:"verdict"`
	Reason    string     `json:"reason,omitempty"`
	Command   string     `json:"command,omitempty"`
	Records   []string   `json:"experiments,omitempty"`
	Profile   string     `json:"profile,omitempty"`
	Seconds   float64    `json:"seconds"`          // that the records behind it took; 0: verify computes it
	Memory    string     `json:"memory,omitempty"` // that the processes or, of older records, the devices used
}

// File returns the content of LedgerFile.
func (v *Verification) File() ([]byte, error) {
	var all []entry
	for _, c := range v.Claims {
		e := entry{
			ID: c.ID, Same: c.Same, Ledger: c.Ledger, Claim: c.Claim.Claim, Version: c.Version, Where: c.Where, Kind: c.Kind, Basis: c.Basis,
			Paper: c.Paper, Reading: c.Reading, Tolerance: c.Within, Verdict: c.Verdict, Reason: c.Reason, Command: c.Command,
			Records: c.Records, Profile: c.Profile, Seconds: c.Seconds,
		}
		if c.Figure != nil {
			e.Here = c.Figure.text
		}
		if c.Design != "" {
			e.Design, e.Compared, e.Why = c.Design, c.Compared, c.Why
		}
		if c.Over != nil {
			e.Over, e.Why = c.Over.text, c.Why
		}
		if c.Bytes > 0 {
			e.Memory = units.FormatBytes(c.Bytes)
		}
		all = append(all, e)
	}
	var b bytes.Buffer
	err := floatjson.Write(&b, map[string]any{"counts": v.Counts, "facts": v.Facts, "headline": v.Headline, "claims": all})
	return b.Bytes(), err
}

// compareLedger adds to what is wrong if the directory has a LedgerFile that the records
// do not give.
func (v Verifying) compareLedger(r *Verification) error {
	name := filepath.Join(v.Results, LedgerFile)
	was, err := files.Read(name, tableKind)
	if errors.Is(err, fs.ErrNotExist) || len(v.Only) > 0 || v.Paper != "" {
		return nil
	}
	if err != nil {
		return err
	}
	is, err := r.File()
	if err == nil && !bytes.Equal(was, is) {
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s: not what the records give", name))
	}
	return err
}
