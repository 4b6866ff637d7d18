package claims

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"gpipebench/internal/failure"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Verification is a verdict for each claim, and what is wrong with the records.
type Verification struct {
	Results string          `json:"results"`
	Rest    string          `json:"rest,omitempty"` // where the experiments are that Results lacks
	Papers  []string        `json:"papers"`         // whose claims these are
	Claims  []Judgement     `json:"claims"`
	Records []RecordsState  `json:"records"`
	Wrong   []string        `json:"wrong"` // with records and derived tables: falsified, damaged, differing, missing, too many
	Counts  map[Verdict]int `json:"counts"`
	// Facts counts facts: Counts without the claims that are the same as another.
	Facts map[Verdict]int `json:"facts"`
	// Headline is what the papers' rows come to. Rows with a claim that was not asked for
	// are left out.
	Headline []Outcome `json:"headline,omitempty"`
	// Versions are the short names of what makes claims, and what they are.
	Versions map[string]string `json:"-"`
	subjects []lab.Paper
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
	All     []lab.Paper // with their claims; the first is the one that is always judged
	Results string      // with records and tables
	// Rest is another such directory, for the experiments that Results lacks, such as
	// that of profile quick where Results is of profile full and has only what takes
	// long. "": there is none.
	Rest      string
	Reference string // what its tables may show beside; "": nothing
	// Only are IDs of claims and verdicts: of other claims nothing is said, and nothing of tables
	// that are in no report. nil: all.
	Only []string
	// Paper is the name of one, or lab.AllPapers: whose claims are judged. "": those of the
	// first, of those that the results have records of, and of those that Only names.
	Paper string
}

// Reading is what directories of results hold, with each experiment's report made once:
// verdicts, a page and documents are made of it.
type Reading struct {
	of      Verifying
	ledgers []*Ledger
	dirs    []directory // the one that decides last
}

// directory is one of results, with all experiments that are read of it.
type directory struct {
	in    Verifying
	all   []*Examined
	state *Verification // of its records and tables, without verdicts
}

// ofPaper is an experiment of a paper.
type ofPaper struct {
	paper string
	lab.Definition
}

// Run computes the verdicts. It returns an error if they cannot be computed; claims
// that fail are in the verification.
func (v Verifying) Run(ctx context.Context) (*Verification, error) {
	r, err := v.Read(ctx)
	if err != nil {
		return nil, err
	}
	return r.Judge()
}

// Read reads the records of all experiments, makes their reports, and compares them with the tables.
// If Only names claims alone, these are the experiments that they may read.
func (v Verifying) Read(ctx context.Context) (*Reading, error) {
	ledgers, err := loadLedgers(v.All)
	if err != nil {
		return nil, err
	}
	all := claimsOf(ledgers)
	if err := checkOnly(v.Only, all); err != nil {
		return nil, err
	}
	var needed []ofPaper
	for _, p := range v.All {
		for _, e := range p.Experiments {
			if v.needs(all, e.ID) {
				needed = append(needed, ofPaper{p.Name, e})
			}
		}
	}
	r, dirs := &Reading{of: v, ledgers: ledgers}, v.directories()
	for _, one := range slices.Backward(dirs) { // the one that was asked for before what it rests on
		if err := one.isThere(); err != nil {
			return nil, err
		}
	}
	for _, one := range dirs {
		r.dirs = append(r.dirs, directory{in: one, all: make([]*Examined, len(needed))})
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, e := range needed {
		var rest logOf // of the directory before
		for _, d := range r.dirs {
			log := d.in.log(e.ID)
			beside := rest
			group.Go(func() (err error) {
				defer failure.Catch(&err)
				if err := ctx.Err(); err != nil {
					return err
				}
				x, err := d.in.examine(e.Definition, log, beside)
				if err != nil {
					return err
				}
				x.Paper, d.all[i] = e.paper, x
				return nil
			})
			rest = log
		}
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for i := range r.dirs {
		d := &r.dirs[i]
		if d.state, err = d.in.compareTables(d.all); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// About is the same reading for the claims of one paper, or of lab.AllPapers.
func (r *Reading) About(paper string) *Reading {
	about := *r
	about.of.Paper = paper
	return &about
}

// Judge computes the verdicts.
func (r *Reading) Judge() (*Verification, error) {
	v := r.of
	var is *Verification
	for _, d := range r.dirs {
		own := *d.state
		own.Records, own.Wrong = slices.Clone(own.Records), slices.Clip(own.Wrong)
		is = own.beside(is)
	}
	is.Results, is.Rest, is.subjects = v.Results, v.Rest, v.All
	var err error
	if is.Papers, err = v.papers(is.Records, claimsOf(r.ledgers)); err != nil {
		return nil, err
	}
	is.Records = slices.DeleteFunc(is.Records, func(s RecordsState) bool { return !slices.Contains(is.Papers, s.Paper) })
	tables := r.tables()
	families, err := families(r.deciding(), tables)
	if err != nil {
		return nil, err
	}
	if err := is.judge(r.ledgers, tables, families, v.Only); err != nil {
		return nil, err
	}
	return is, v.compareLedger(is)
}

// judge judges the claims of Papers by tables and the designs of experiments. Only is as in
// Verifying.
func (v *Verification) judge(ledgers []*Ledger, tables tablesOf, families map[string]*judged, only []string) error {
	v.Versions = map[string]string{}
	for _, l := range ledgers {
		maps.Copy(v.Versions, l.Versions)
	}
	for _, c := range claimsOf(ledgers) {
		if !slices.Contains(v.Papers, c.Ledger) {
			continue
		}
		e := newEvaluator(tables)
		e.families = families
		one, err := c.judge(e)
		if err != nil {
			return fmt.Errorf("%s/claims.yaml:%d: %s: %w", c.Ledger, c.line, c.ID, err)
		}
		if selects(only, one) {
			v.Claims = append(v.Claims, one)
		}
	}
	v.count()
	for _, l := range ledgers {
		for _, row := range l.Headline {
			if o, ok := row.outcome(v.Claims); ok {
				v.Headline = append(v.Headline, o)
			}
		}
	}
	return nil
}

// count counts the claims by verdict, and those that are facts of their own.
func (v *Verification) count() {
	v.Counts, v.Facts = map[Verdict]int{}, map[Verdict]int{}
	for _, c := range v.Claims {
		v.Counts[c.Verdict]++
		if c.Same == "" {
			v.Facts[c.Verdict]++
		}
	}
}

// Figures returns what evaluates expressions as claims have them.
func (r *Reading) Figures() func(expression string) (float64, error) {
	e := newEvaluator(r.tables())
	return func(expression string) (float64, error) {
		n, err := e.Number(expression)
		return n.X, err
	}
}

// Experiment is what decides of an experiment; nil: there are no records of it.
func (r *Reading) Experiment(id string) *Examined {
	for _, d := range slices.Backward(r.dirs) {
		for _, x := range d.all {
			if x.Experiment == id && x.State != "none" {
				return x
			}
		}
	}
	return nil
}

// papers returns the names of the papers whose claims are judged.
func (v Verifying) papers(states []RecordsState, ledger []Claim) (names []string, err error) {
	var known []string
	for i, p := range v.All {
		known = append(known, p.Name)
		recorded := func(s RecordsState) bool { return s.Paper == p.Name && s.State != "none" }
		named := func(c Claim) bool { return c.Ledger == p.Name && slices.Contains(v.Only, c.ID) }
		if v.Paper == p.Name || v.Paper == lab.AllPapers ||
			v.Paper == "" && (i == 0 || slices.ContainsFunc(states, recorded) || slices.ContainsFunc(ledger, named)) {
			names = append(names, p.Name)
		}
	}
	if len(names) == 0 {
		return nil, failure.Usagef("unknown paper %q: want %s", v.Paper, strings.Join(append(known, lab.AllPapers), ", "))
	}
	return names, nil
}

// Of returns the part of a verification that is about one paper.
func (v *Verification) Of(paper string) *Verification {
	part := *v
	part.Papers, part.Claims, part.Records, part.Headline = []string{paper}, nil, nil, nil
	for _, c := range v.Claims {
		if c.Ledger == paper {
			part.Claims = append(part.Claims, c)
		}
	}
	part.count()
	for _, o := range v.Headline {
		if o.Ledger == paper {
			part.Headline = append(part.Headline, o)
		}
	}
	for _, s := range v.Records {
		if s.Paper == paper {
			part.Records = append(part.Records, s)
		}
	}
	return &part
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

// tables returns the tables of the experiments that are usable: of the directory that decides last.
func (r *Reading) tables() tablesOf {
	tables := tablesOf{}
	for _, x := range r.deciding() {
		for _, t := range x.report.Tables {
			tables[t.ID] = claimTable{t, x.Experiment, x.Profile, x.cost}
		}
	}
	return tables
}

// deciding are the experiments that are usable, each of the directory that decides last.
func (r *Reading) deciding() (all []*Examined) {
	for i := range r.dirs[0].all { // all directories have the same, in the same order
		for _, d := range slices.Backward(r.dirs) {
			if x := d.all[i]; x.Usable {
				all = append(all, x)
				break
			}
		}
	}
	return all
}

// tablesOf are the tables that records give, by ID.
type tablesOf map[string]claimTable

type claimTable struct {
	*lab.Table
	experiment, profile string
	cost                records.Cost // of the experiment's records
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
	return v
}

// usable reports whether some directory has usable records of an experiment.
func (v *Verification) usable(experiment string) bool {
	return slices.ContainsFunc(v.Records, func(s RecordsState) bool { return s.Experiment == experiment && s.Usable })
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
		const most = 8 // in one line
		all := len(list)
		if all > most {
			list = append(list[:most:most], fmt.Sprintf("and %d more", all-most))
		}
		if all > 0 {
			what = append(what, fmt.Sprintf("%d %s: %s", all, of, strings.Join(list, ", ")))
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
