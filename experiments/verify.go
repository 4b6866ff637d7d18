package experiments

import (
	"context"
	"errors"
	"fmt"
	"gpipebench/internal/files"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Verdict is what came out for a claim.
type Verdict string

const (
	Reproduced   Verdict = "reproduced"    // exact, or a ratio within its tolerance
	Partly       Verdict = "partly"        // some of a ratio's values are within its tolerance
	Differs      Verdict = "differs"       // none is
	Holds        Verdict = "holds"         // of a trend
	Shown        Verdict = "shown"         // of a contradiction
	Fails        Verdict = "fails"         // of all but ratios
	TooSmall     Verdict = "too small"     // a trend that does not hold in the smoke profile, which is for testing programs
	NoRecord     Verdict = "no record"     // that it could be computed from
	NotAttempted Verdict = "not attempted" // here, or yet
)

// Verification is a verdict for each claim, and what is wrong with the records.
type Verification struct {
	Results string          `json:"results"`
	Claims  []ClaimVerdict  `json:"claims"`
	Records []RecordsState  `json:"records"`
	Wrong   []string        `json:"wrong"` // with records and derived tables: falsified, damaged, differing
	Counts  map[Verdict]int `json:"counts"`
}

// ClaimVerdict is a claim and what came out.
type ClaimVerdict struct {
	Claim
	Verdict  Verdict       `json:"verdict"`
	Figures  []ClaimFigure `json:"figures,omitempty"`
	Evidence []string      `json:"evidence,omitempty"` // the cells that were read
	Why      string        `json:"why,omitempty"`      // of no record
}

// ClaimFigure is a figure of ours beside the paper's.
type ClaimFigure struct {
	Name      string  `json:"name"`
	Value     float64 `json:"value"`
	Deviation float64 `json:"deviation"` // from the paper's, relative
	Within    bool    `json:"within"`    // its tolerance
}

// RecordsState is what there is of an experiment.
type RecordsState struct {
	Experiment string `json:"experiment"`
	Profile    string `json:"profile,omitempty"`
	State      string `json:"state"` // complete, none, or what they lack
	Usable     bool   `json:"usable"`
}

// Verifying checks the ledger's claims against a directory of results.
type Verifying struct {
	Results   string // with records and tables
	Reference string // what its tables may show beside; "": nothing
}

// Run computes the verdicts. Its error says that they could not be computed; that
// claims fail is in the verification.
func (v Verifying) Run(ctx context.Context) (*Verification, error) {
	ledger, err := LoadLedger()
	if err != nil {
		return nil, err
	}
	if st, err := os.Stat(v.Results); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("%s is no directory of results: want one that reproduce has written", v.Results)
	}
	r := &Verification{Results: v.Results, Counts: map[Verdict]int{}}
	tables := tablesOf{}
	for _, id := range IDs() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := v.read(id, tables, r); err != nil {
			return nil, err
		}
	}
	for _, c := range ledger.Claims {
		one, err := c.judge(ctx, tables)
		if err != nil {
			return nil, fmt.Errorf("claims.yaml:%d: %s: %w", c.line, c.ID, err)
		}
		r.Counts[one.Verdict]++
		r.Claims = append(r.Claims, one)
	}
	return r, nil
}

// tablesOf are the tables that records give.
type tablesOf map[string]claimTable

type claimTable struct {
	*Table
	small bool // measured in the smoke profile
}

// read takes in an experiment's records, and holds the tables beside them
// against what they give.
func (v Verifying) read(id string, tables tablesOf, r *Verification) error {
	e, err := Load(id)
	if err != nil {
		return err
	}
	name := filepath.Join(v.Results, "records", id+".jsonl")
	state := RecordsState{Experiment: id, State: "complete"}
	defer func() { r.Records = append(r.Records, state) }()
	log, err := LoadLog(name, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		state.State = "none"
		return nil
	case err != nil:
		state.State = err.Error()
		r.Wrong = append(r.Wrong, err.Error())
		return nil
	}
	state.Profile = log.Key.Profile
	if log.Damaged != "" {
		r.Wrong = append(r.Wrong, "changed or damaged records, which do not count: "+log.Damaged)
	}
	if want := e.Key(log.Key.Profile); want.Spec != log.Key.Spec {
		state.State = fmt.Sprintf("of another spec (%s, now %s): measure again", log.Key.Spec, want.Spec)
		return nil
	}
	report, err := reportOf(e, log, nil)
	if err != nil {
		state.State = "incomplete: " + err.Error()
		if _, err := os.Stat(filepath.Join(v.Results, "tables", id+".csv")); err == nil {
			r.Wrong = append(r.Wrong, fmt.Sprintf("%s: there are tables, but their records are incomplete: %s", id, strings.TrimPrefix(state.State, "incomplete: ")))
		}
		return nil
	}
	state.Usable = true
	if report.Verdict != nil {
		r.Wrong = append(r.Wrong, report.Verdict.Error())
	}
	for _, t := range report.Tables {
		tables[t.ID] = claimTable{t, log.Key.Profile == Profiles[0]}
	}
	wrong := differing(filepath.Join(v.Results, "tables"), report)
	if len(wrong) > 0 && v.Reference != "" && !sameDir(v.Results, v.Reference) {
		// They may have been made with a reference beside.
		if reference, err := LoadLog(filepath.Join(v.Reference, "records", id+".jsonl"), id); err == nil {
			if beside, err := reportOf(e, log, reference); err == nil {
				wrong = differing(filepath.Join(v.Results, "tables"), beside)
			}
		}
	}
	switch more := len(wrong) - 1; {
	case more == 0:
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s is not what its records give; reproduce writes it again", wrong[0]))
	case more > 0:
		r.Wrong = append(r.Wrong, fmt.Sprintf("%s and %d more of %s are not what its records give; reproduce writes them again", wrong[0], more, id))
	}
	return nil
}

// tableKind is what a file of a report may be: none has reached a megabyte.
var tableKind = files.Kind{What: "a file that reproduce writes", Bytes: 16 << 20}

// differing lists the files of a report that a directory has otherwise. What is
// not there is not wrong.
func differing(dir string, r *Report) (wrong []string) {
	for _, f := range r.files() {
		name := filepath.Join(dir, f.Name)
		text, err := files.Read(name, tableKind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			wrong = append(wrong, err.Error())
		case !sameFile(f.Name, string(text), f.Text):
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// judge computes a claim's verdict. Its error is of the claim.
func (c Claim) judge(ctx context.Context, tables tablesOf) (ClaimVerdict, error) {
	v := ClaimVerdict{Claim: c, Verdict: NotAttempted}
	e := &evaluator{ctx: ctx, tables: tables}
	if c.Kind == NotHere || c.Kind == NotYet {
		for _, value := range c.Values {
			var m *missingEvidence
			x, err := e.evaluate(value.expression)
			if err != nil && !errors.As(err, &m) {
				return v, err
			}
			if err == nil {
				v.Evidence = append(v.Evidence, fmt.Sprintf("%s: %v", value.name, x))
			}
		}
		return v, nil
	}
	within := 0
	missing := func(err error) bool {
		var m *missingEvidence
		if errors.As(err, &m) {
			v.Why = m.what
			return true
		}
		return false
	}
	for _, value := range c.Values {
		x, err := e.number(value.expression)
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
		if holds, err = e.truth(c.Holds); missing(err) {
			holds, v.Figures = true, nil // half of an evidence is none
		} else if err != nil {
			return v, err
		} else {
			v.Why = ""
		}
	}
	for _, read := range e.reads {
		if !slices.Contains(v.Evidence, read) {
			v.Evidence = append(v.Evidence, read)
		}
	}
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
	case !holds && c.Kind == Trend && e.small:
		v.Verdict = TooSmall
	case !holds, c.Kind == Exact && within < len(v.Figures):
		v.Verdict = Fails
	default:
		v.Verdict = map[ClaimKind]Verdict{Exact: Reproduced, Trend: Holds, Contradiction: Shown}[c.Kind]
	}
	if len(v.Figures) == len(c.Values) {
		v.Why = ""
	}
	return v, nil
}

// figure holds a value against the paper's.
func (c *Claim) figure(name string, x float64) ClaimFigure {
	f := ClaimFigure{Name: name, Value: x}
	paper, half, ok := printed(c.Paper)
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

// Err says what must not be: an exact claim or a trend that fails, a
// contradiction that is not there, records or tables that are wrong; if strict
// also evidence that is missing.
func (v *Verification) Err(strict bool) error {
	var failed, without []string
	for _, c := range v.Claims {
		switch c.Verdict {
		case Fails:
			failed = append(failed, c.ID)
		case NoRecord:
			without = append(without, c.ID)
		}
	}
	var what []string
	if len(failed) > 0 {
		what = append(what, fmt.Sprintf("%d claims fail: %s", len(failed), strings.Join(failed, ", ")))
	}
	what = append(what, v.Wrong...)
	if strict && len(without) > 0 {
		what = append(what, fmt.Sprintf("%d claims have no record: %s", len(without), strings.Join(without, ", ")))
	}
	if len(what) == 0 {
		return nil
	}
	return errors.New(v.Results + ": " + strings.Join(what, "; "))
}

// Tables are the verdicts, and what there is of each experiment.
func (v *Verification) Tables() []*Table {
	claims := &Table{
		ID: "claims", Title: "Claims of the GPipe paper, and what came out here",
		Caption: []string{
			"Exact claims are recomputed. Ratios are figures of the paper's machines beside ours: reproduced within the tolerance, partly where only some of our figures are, and differing else, which is shown and is no failure. Trends are predicates over what was measured. Contradictions are the paper's own.",
		},
		Columns: []Column{{"claim", true}, {"where", true}, {"kind", true}, {"paper", false}, {"here", true}, {"verdict", true}},
	}
	for _, c := range v.Claims {
		claims.Add(c.Claim.Claim, c.Version+" "+c.Where, string(c.Kind), orDash(c.Paper), c.here(), string(c.Verdict))
	}
	var counts []string
	for _, verdict := range []Verdict{Reproduced, Holds, Shown, Partly, Differs, Fails, TooSmall, NoRecord, NotAttempted} {
		if n := v.Counts[verdict]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d %s", n, verdict))
		}
	}
	claims.Notes = []string{fmt.Sprintf("%d claims: %s.", len(v.Claims), strings.Join(counts, ", "))}
	for _, what := range v.Wrong {
		claims.Notes = append(claims.Notes, "Wrong: "+what+".")
	}
	records := &Table{
		ID: "claims-records", Title: "Records in " + v.Results,
		Columns: []Column{{"experiment", true}, {"profile", true}, {"records", true}},
	}
	for _, s := range v.Records {
		records.Add(s.Experiment, orDash(s.Profile), s.State)
	}
	return []*Table{claims, records}
}

// WriteText writes the verdicts one after another, each with what it rests on.
func (v *Verification) WriteText(w io.Writer) error {
	tables := v.Tables()
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", tables[0].Title)
	for _, c := range v.Claims {
		fmt.Fprintf(&b, "%-14s%s\n", c.Verdict, c.Claim.Claim)
		from := c.Version + " " + c.Where + ", " + string(c.Kind)
		if c.Paper != "" {
			from += ", paper " + c.Paper
		}
		for _, line := range fold(from+"; here: "+c.here(), 96) {
			fmt.Fprintf(&b, "%14s%s\n", "", line)
		}
	}
	b.WriteString("\n" + strings.Join(tables[0].Notes, "\n") + "\n\n")
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return tables[1].Write(w, "text")
}

// fold breaks a text into lines of at most so many characters, or one word.
func fold(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimLeft(line+" "+word, " ")
	}
	return append(lines, line)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// here is what there is on this side, in a few words.
func (c *ClaimVerdict) here() string {
	var parts []string
	for _, f := range c.Figures {
		text := fmt.Sprintf("%s %s", f.Name, shortNumber(f.Value))
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
	return orDash(strings.Join(parts, "; "))
}

// shortNumber writes four digits, large numbers with M or B as the paper does.
func shortNumber(x float64) string {
	switch {
	case math.Abs(x) >= 1e9:
		return fmt.Sprintf("%.4gB", x/1e9)
	case math.Abs(x) >= 1e6:
		return fmt.Sprintf("%.4gM", x/1e6)
	}
	return fmt.Sprintf("%.4g", x)
}
