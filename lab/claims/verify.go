package claims

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/experiments"
	"gpipebench/internal/files"
	"gpipebench/internal/sums"
	"gpipebench/lab"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Verification is a verdict for each claim, and what is wrong with the records.
type Verification struct {
	Results string         `json:"results"`
	Rest    string         `json:"rest,omitempty"` // where the experiments are that Results lacks
	Papers  []string       `json:"papers"`         // whose claims these are
	Claims  []Judgement    `json:"claims"`
	Records []RecordsState `json:"records"`
	Wrong   []string       `json:"wrong"` // with records and derived tables: falsified, damaged, differing, missing, too many
	// Listed is how many files have the digests that SHA256SUMS lists; 0: there is
	// no such list.
	Listed int             `json:"listed"`
	Counts map[Verdict]int `json:"counts"`
}

// RecordsState is the state of an experiment's records in a directory.
type RecordsState struct {
	Experiment string `json:"experiment"`
	Paper      string `json:"paper"`
	Results    string `json:"results"`
	Profile    string `json:"profile,omitempty"`
	State      string `json:"state"` // complete, none, or what they lack
	Usable     bool   `json:"usable"`
}

// Verifying checks claims with a directory of results.
type Verifying struct {
	Results string // with records and tables
	// Rest is another such directory, for the experiments that Results lacks, such as
	// that of profile quick where Results is of profile full and has only what takes
	// long. "": there is none.
	Rest      string
	Reference string // what its tables may show beside; "": nothing
	// Only are IDs of claims and verdicts: of other claims nothing is said. nil: all.
	Only []string
	// Paper is one of experiments.PaperNames: whose claims are judged. "": those of the
	// first paper, of those that the results have records of, and of those that Only names.
	Paper string
}

// Run computes the verdicts. It returns an error if they cannot be computed; claims
// that fail are in the verification.
func (v Verifying) Run(ctx context.Context) (*Verification, error) {
	ledger, err := loadClaims()
	if err != nil {
		return nil, err
	}
	var r *Verification
	tables := tablesOf{}
	for _, one := range v.directories() {
		if err := one.isThere(); err != nil {
			return nil, err
		}
		all, its, err := one.read(ctx)
		if err != nil {
			return nil, err
		}
		tables.add(its)
		held, err := one.hold(all)
		if err != nil {
			return nil, err
		}
		r = held.beside(r)
	}
	r.Results, r.Rest = v.Results, v.Rest
	if r.Papers, err = v.papers(r.Records, ledger); err != nil {
		return nil, err
	}
	r.Records = slices.DeleteFunc(r.Records, func(s RecordsState) bool { return !slices.Contains(r.Papers, s.Paper) })
	for _, c := range ledger {
		if !slices.Contains(r.Papers, c.Ledger) {
			continue
		}
		one, err := c.judge(newEvaluator(ctx, tables))
		if err != nil {
			return nil, fmt.Errorf("%s/claims.yaml:%d: %s: %w", c.Ledger, c.line, c.ID, err)
		}
		if !selects(v.Only, one) {
			continue
		}
		r.Counts[one.Verdict]++
		r.Claims = append(r.Claims, one)
	}
	return r, v.compareLedger(r)
}

// papers returns the names of the papers whose claims are judged.
func (v Verifying) papers(states []RecordsState, ledger []Claim) (names []string, err error) {
	if _, err := experiments.IDsOf(cmp.Or(v.Paper, experiments.AllPapers)); err != nil {
		return nil, err
	}
	for i, p := range experiments.Papers {
		recorded := func(s RecordsState) bool { return s.Paper == p.Name && s.State != "none" }
		named := func(c Claim) bool { return c.Ledger == p.Name && slices.Contains(v.Only, c.ID) }
		if v.Paper == p.Name || v.Paper == experiments.AllPapers ||
			v.Paper == "" && (i == 0 || slices.ContainsFunc(states, recorded) || slices.ContainsFunc(ledger, named)) {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

// Of returns the part of a verification that is about one paper.
func (v *Verification) Of(paper string) *Verification {
	part := *v
	part.Papers, part.Claims, part.Records, part.Counts = []string{paper}, nil, nil, map[Verdict]int{}
	for _, c := range v.Claims {
		if c.Ledger == paper {
			part.Claims = append(part.Claims, c)
			part.Counts[c.Verdict]++
		}
	}
	for _, s := range v.Records {
		if s.Paper == paper {
			part.Records = append(part.Records, s)
		}
	}
	return &part
}

// Figures returns what evaluates expressions as claims have them, over the tables that
// the records give.
func (v Verifying) Figures(ctx context.Context) (of func(expression string) (float64, error), err error) {
	tables := tablesOf{}
	for _, one := range v.directories() {
		_, its, err := one.read(ctx)
		if err != nil {
			return nil, err
		}
		tables.add(its)
	}
	e := newEvaluator(ctx, tables)
	return func(expression string) (float64, error) {
		n, err := e.Number(expression)
		return n.X, err
	}, nil
}

// directories are those that verdicts rest on, the one that decides last. Its tables
// show the other's figures beside.
func (v Verifying) directories() []Verifying {
	if v.Rest == "" {
		return []Verifying{v}
	}
	return []Verifying{{Results: v.Rest, Only: v.Only}, v}
}

// isThere returns an error unless Results is a directory.
func (v Verifying) isThere() error {
	const want = "want a directory that reproduce has written; --results says which"
	switch st, err := os.Stat(v.Results); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not there: %s", v.Results, want)
	case err != nil:
		return err
	case !st.IsDir():
		return fmt.Errorf("%s is no directory: %s", v.Results, want)
	}
	return nil
}

// read examines all experiments, and returns the tables of those that are usable.
func (v Verifying) read(ctx context.Context) (all []*examined, tables tablesOf, err error) {
	tables = tablesOf{}
	for _, p := range experiments.Papers {
		for _, d := range p.Experiments {
			if err := ctx.Err(); err != nil {
				return nil, nil, err
			}
			x, err := v.examine(d.ID)
			if err != nil {
				return nil, nil, err
			}
			x.Paper = p.Name
			all = append(all, x)
			if x.Usable {
				for _, t := range x.report.Tables {
					tables[t.ID] = claimTable{t, d.ID, x.Profile, x.cost}
				}
			}
		}
	}
	return all, tables, nil
}

// tablesOf are the tables that records give.
type tablesOf map[string]claimTable

// add adds the tables of other experiments, and replaces those of the same.
func (t tablesOf) add(more tablesOf) {
	maps.DeleteFunc(t, func(_ string, was claimTable) bool {
		for _, is := range more {
			if is.experiment == was.experiment {
				return true
			}
		}
		return false
	})
	maps.Copy(t, more)
}

type claimTable struct {
	*lab.Table
	experiment, profile string
	cost                records.Cost // of the experiment's records
}

// examined is an experiment's records, read.
type examined struct {
	RecordsState
	file   string // of the records
	cost   records.Cost
	report *lab.Report
	files  []lab.File // of the report, as they are written
	wrong  []string
	// beside makes the report with the reference beside.
	beside func() (*lab.Report, error)
}

// examine reads an experiment's records and makes its report.
func (v Verifying) examine(id string) (*examined, error) {
	e, err := experiments.Load(id)
	if err != nil {
		return nil, err
	}
	x := &examined{RecordsState: RecordsState{Experiment: id, Results: v.Results, State: "complete"}, file: records.File(v.Results, id)}
	log, err := records.Load(x.file, id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.State = "none"
		return x, nil
	case err != nil:
		x.State = err.Error()
		x.wrong = append(x.wrong, err.Error())
		return x, nil
	}
	x.Profile, x.cost = log.Key.Profile, log.Cost()
	if log.Damaged != "" {
		x.wrong = append(x.wrong, fmt.Sprintf("changed or damaged records, which do not count: %s; remove these lines, and reproduce measures their samples again", log.Damaged))
	}
	if want := e.Key(log.Key.Profile); want.Spec != log.Key.Spec {
		x.State = fmt.Sprintf("of another spec (%s, now %s): measure again", log.Key.Spec, want.Spec)
		return x, nil
	}
	var rest *records.Log
	if v.Rest != "" {
		if rest, err = records.Load(records.File(v.Rest, id), id); err != nil {
			rest = nil // which is said where that directory is read
		}
	}
	if x.report, err = lab.ReportOf(e, log, rest); err != nil {
		x.State = "incomplete: " + err.Error()
		return x, nil
	}
	if log.Torn != "" {
		x.State = "complete, but for a last line without its end, which reproduce sets aside: " + log.Torn
	}
	x.Usable = true
	x.files = x.report.Rendered()
	if x.report.Verdict != nil {
		x.wrong = append(x.wrong, x.report.Verdict.Error())
	}
	x.beside = func() (*lab.Report, error) {
		reference, err := records.Load(records.File(v.Reference, id), id)
		if err != nil {
			return nil, err
		}
		return lab.ReportOf(e, log, reference)
	}
	return x, nil
}

// hold compares the tables and the list of digests of a directory of results with the
// records of all experiments. It does not judge claims.
func (v Verifying) hold(all []*examined) (*Verification, error) {
	r := &Verification{Results: v.Results, Counts: map[Verdict]int{}}
	none := true
	made := map[string]bool{} // files of tables that some report has
	for _, x := range all {
		r.Records = append(r.Records, x.RecordsState)
		r.Wrong = append(r.Wrong, x.wrong...)
		if x.State != "none" {
			none = false
		}
		if x.Usable {
			r.Wrong = append(r.Wrong, v.compare(x, made)...)
		}
	}
	if none {
		r.Wrong = append(r.Wrong, filepath.Join(v.Results, "records")+" has no records of any experiment: want a directory that reproduce has written; --results says which")
	}
	unfounded, err := v.unfounded(all, made)
	if err != nil {
		return nil, err
	}
	r.Wrong = append(r.Wrong, unfounded...)
	listed, wrong, err := sums.Check(v.Results, resultKind, resultFolders...)
	r.Listed, r.Wrong = listed, append(r.Wrong, wrong...)
	return r, err
}

// beside adds what another directory has, which stands for what this one lacks; nil:
// there is none.
func (v *Verification) beside(rest *Verification) *Verification {
	if rest == nil {
		return v
	}
	v.Records = slices.DeleteFunc(v.Records, func(s RecordsState) bool { return s.State == "none" })
	for _, s := range rest.Records {
		if i := slices.IndexFunc(v.Records, func(own RecordsState) bool { return own.Experiment == s.Experiment }); i < 0 || s.State != "none" {
			v.Records = append(v.Records, s)
		}
	}
	v.Wrong = append(v.Wrong, rest.Wrong...)
	v.Listed += rest.Listed
	return v
}

// usable reports whether some directory has usable records of an experiment.
func (v *Verification) usable(experiment string) bool {
	return slices.ContainsFunc(v.Records, func(s RecordsState) bool { return s.Experiment == experiment && s.Usable })
}

// compare returns which of an experiment's tables are not what its records give, and
// adds the names of those that it should have to made.
func (v Verifying) compare(x *examined, made map[string]bool) (wrong []string) {
	dir := filepath.Join(v.Results, "tables")
	differ, missing, unreadable := differing(dir, x.files)
	should, hint := x.files, ""
	if len(differ)+len(missing) > 0 && v.Reference != "" && !files.SameDir(v.Results, v.Reference) {
		// They may have been made with a reference beside.
		if beside, err := x.beside(); err != nil {
			hint = fmt.Sprintf("; a run that they may show beside cannot be read (--reference %s): %v", v.Reference, files.Reason(err))
		} else if d, m, u := differing(dir, beside.Rendered()); len(d)+len(m) < len(differ)+len(missing) {
			should, differ, missing, unreadable = beside.Rendered(), d, m, u
		}
	}
	for _, f := range should {
		made[f.Name] = true
	}
	if len(differ) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not what the records of %s give; reproduce writes tables again%s", files.FirstOf(dir, differ), x.Experiment, hint))
	}
	if len(missing) > 0 {
		wrong = append(wrong, fmt.Sprintf("%s: not there, though the records of %s are; reproduce writes tables again", files.FirstOf(dir, missing), x.Experiment))
	}
	return append(wrong, unreadable...)
}

// resultFolders are what a directory's SHA256SUMS is about. A record's own sum is no
// signature: only this list, where it is kept out of reach (as by commits), finds
// records that were changed together with their sums and the tables made of them.
var resultFolders = []string{"records", "tables", LedgerFile}

// resultKind bounds a file of results.
var resultKind = files.Kind{What: "a file of results", Bytes: records.FileKind.Bytes}

// tableKind bounds a file of a report: none has reached a megabyte.
var tableKind = files.Kind{What: "a file that reproduce writes", Bytes: 16 << 20}

// differing returns the files of a report that differ in a directory, those that are
// missing there, and why others cannot be read.
func differing(dir string, should []lab.File) (differ, missing, unreadable []string) {
	for _, f := range should {
		text, err := files.Read(filepath.Join(dir, f.Name), tableKind)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, f.Name)
		case err != nil:
			unreadable = append(unreadable, err.Error())
		case !plot.Same(f.Name, string(text), f.Text):
			differ = append(differ, f.Name)
		}
	}
	return differ, missing, unreadable
}

// unfounded returns which tables are in no report that is made of usable records.
func (v Verifying) unfounded(all []*examined, made map[string]bool) (wrong []string, err error) {
	dir := filepath.Join(v.Results, "tables")
	names, err := files.Below(v.Results, "tables")
	if err != nil {
		return nil, err
	}
	of := map[*examined][]string{} // nil: of no experiment
	for _, name := range names {
		name = strings.TrimPrefix(name, "tables/")
		if made[name] {
			continue
		}
		var owner *examined // the one whose ID the name begins with, the longest
		for _, x := range all {
			rest, ok := strings.CutPrefix(name, x.Experiment)
			if ok && strings.IndexAny(rest, "-.") == 0 && (owner == nil || len(owner.Experiment) < len(x.Experiment)) {
				owner = x
			}
		}
		if owner != nil && owner.Usable {
			owner = nil
		}
		of[owner] = append(of[owner], name)
	}
	var unusable []string
	for _, x := range all {
		if x.Usable {
			continue
		}
		unusable = append(unusable, x.Experiment)
		if len(of[x]) > 0 {
			wrong = append(wrong, fmt.Sprintf("%s: tables without usable records: %s: %s", files.FirstOf(dir, of[x]), x.file, x.why()))
		}
	}
	if len(of[nil]) > 0 {
		what := "in no report: remove what reproduce did not write"
		if len(unusable) > 0 {
			what = fmt.Sprintf("in no report that has usable records, which %s have not", strings.Join(unusable, ", "))
		}
		wrong = append(wrong, files.FirstOf(dir, of[nil])+": "+what)
	}
	return wrong, nil
}

// why returns why records cannot be used.
func (s RecordsState) why() string {
	if s.State == "none" {
		return "not there"
	}
	return s.State
}

// Err returns an error for claims that fail, and records or tables that are wrong; if
// strict also for evidence that is missing: a claim's, or an experiment's records.
func (v *Verification) Err(strict bool) error {
	var failed, without, unusable, what []string
	for _, c := range v.Claims {
		switch c.Verdict {
		case Fails:
			failed = append(failed, c.ID)
		case NoRecord:
			without = append(without, c.ID)
		}
	}
	for _, x := range v.Records {
		if !v.usable(x.Experiment) {
			unusable = append(unusable, fmt.Sprintf("%s (%s)", x.Experiment, x.why()))
		}
	}
	add := func(list []string, of string) {
		if len(list) > 0 {
			what = append(what, fmt.Sprintf("%d %s: %s", len(list), of, strings.Join(list, ", ")))
		}
	}
	add(failed, "claims fail")
	what = append(what, v.Wrong...)
	if strict {
		add(unusable, "experiments have no usable records")
		add(without, "claims have no record")
	}
	if len(what) == 0 {
		return nil
	}
	return errors.New(v.Results + ": " + strings.Join(what, "; "))
}
