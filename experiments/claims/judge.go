package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"gpipebench/internal/units"
)

// Verdict is the outcome of a claim.
type Verdict string

const (
	Reproduced   Verdict = "reproduced"    // exact, or a ratio within its tolerance
	Partly       Verdict = "partly"        // some of a ratio's values are within its tolerance
	Differs      Verdict = "differs"       // none is
	Holds        Verdict = "holds"         // of a trend
	Shown        Verdict = "shown"         // of a contradiction
	Fails        Verdict = "fails"         // of all but ratios
	Noisy        Verdict = "noisy"         // of what is ours: this machine cannot tell
	TooSmall     Verdict = "too small"     // a trend that does not hold in the smoke profile, which is for testing programs
	NoRecord     Verdict = "no record"     // that it could be computed from
	NotAttempted Verdict = "not attempted" // here, or yet
)

// Judgement is a claim and its outcome.
type Judgement struct {
	Claim
	Verdict  Verdict  `json:"verdict"`
	Figures  []Figure `json:"figures,omitempty"`
	Evidence []string `json:"evidence,omitempty"` // the cells that were read
	Why      string   `json:"why,omitempty"`      // of no record
}

// Figure is a figure of ours, compared with the paper's.
type Figure struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Deviation float64 `json:"deviation"` // from the paper's, relative
	Within    bool    `json:"within"`    // its tolerance
}

// judge computes a claim's verdict. Its error is of the claim.
func (c Claim) judge(ctx context.Context, tables tablesOf) (Judgement, error) {
	v := Judgement{Claim: c, Verdict: NotAttempted}
	e := newEvaluator(ctx, tables)
	if c.Kind == NotHere || c.Kind == NotYet {
		for _, value := range c.Values {
			x, err := e.Evaluate(value.expression)
			if err == nil {
				v.Evidence = append(v.Evidence, fmt.Sprintf("%s: %v", value.name, x))
			} else if _, missing := errors.AsType[*missingEvidence](err); !missing {
				return v, err
			}
		}
		return v, nil
	}
	within := 0
	missing := func(err error) bool {
		m, is := errors.AsType[*missingEvidence](err)
		if is {
			v.Why = m.what
		}
		return is
	}
	for _, value := range c.Values {
		x, err := e.Number(value.expression)
		if missing(err) {
			continue // others may be there
		}
		if err != nil {
			return v, err
		}
		f := c.figure(value.name, x)
		if f.Within {
			within++
		}
		v.Figures = append(v.Figures, f)
	}
	holds := true
	if c.Holds != "" {
		var err error
		if holds, err = e.Truth(c.Holds); missing(err) {
			holds, v.Figures = true, nil // half of an evidence is none
		} else if err != nil {
			return v, err
		} else {
			v.Why = ""
		}
	}
	noisy := false
	if !holds && c.Noisy != "" && !e.small {
		var err error
		if noisy, err = e.Truth(c.Noisy); err != nil && !missing(err) {
			return v, err
		}
	}
	v.Evidence = e.reads
	switch {
	case len(c.Values) > 0 && len(v.Figures) == 0, c.Holds != "" && v.Why != "":
		v.Verdict = NoRecord
		return v, nil
	case c.Kind == Ratio && within == len(v.Figures):
		v.Verdict = Reproduced
	case c.Kind == Ratio && within > 0:
		v.Verdict = Partly
	case c.Kind == Ratio:
		v.Verdict = Differs
	case !holds && (c.Kind == Trend || c.Kind == Ours) && e.small:
		v.Verdict = TooSmall
	case noisy:
		v.Verdict = Noisy
	case !holds, c.Kind == Exact && within < len(v.Figures):
		v.Verdict = Fails
	default:
		v.Verdict = map[Kind]Verdict{Exact: Reproduced, Trend: Holds, Ours: Holds, Contradiction: Shown}[c.Kind]
	}
	if len(v.Figures) == len(c.Values) {
		v.Why = ""
	}
	if noisy {
		v.Why = "this machine is noisy"
	}
	return v, nil
}

// figure compares a value with the paper's.
func (c *Claim) figure(name string, x float64) Figure {
	f := Figure{Name: name, Value: x}
	paper, half, ok := units.ReadFigure(c.Paper)
	if !ok || c.Kind == Contradiction {
		return f // for evidence
	}
	f.Deviation = x/paper - 1
	if c.Tolerance > 0 {
		f.Within = math.Abs(x-paper) <= c.Tolerance/100*math.Abs(paper)*(1+1e-12)
	} else {
		f.Within = math.Abs(x-paper) <= half*(1+1e-9)
	}
	return f
}

// here returns our side of a claim in a few words.
func (c *Judgement) here() string {
	var parts []string
	for _, f := range c.Figures {
		text := fmt.Sprintf("%s %s", f.Name, units.FormatFigure(f.Value))
		if f.Deviation != 0 {
			text += fmt.Sprintf(" (%+.3g%%)", 100*f.Deviation)
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 && c.Verdict != NoRecord {
		parts = slices.Clone(c.Evidence[:min(6, len(c.Evidence))])
		if len(c.Evidence) > 6 {
			parts = append(parts, "...")
		}
	}
	for _, text := range []string{c.Why, c.Reason} {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if c.StandIn != "" {
		parts = append(parts, "stand-in: "+c.StandIn)
	}
	if c.Note != "" {
		parts = append(parts, c.Note)
	}
	return cmp.Or(strings.Join(parts, "; "), "-")
}
