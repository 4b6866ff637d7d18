package page

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/internal/files"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/records"
	"gpipebench/simulate/schedulepage"
)

// Index is the file of the first paper's page, and schedules the file of the schedule page.
const (
	Index     = "index.html"
	schedules = "schedule.html"
)

// Reporting makes the pages of a directory of results: the claims' verdicts, the
// tables, the plots and the provenance. They are computed from the records, as the
// tables are, and the same records give the same bytes.
type Reporting struct {
	Papers  []lab.Paper // in the order of the pages
	Results string      // a directory that reproduce has written, with records
	// Rest is another, for the experiments that Results lacks, and beside those that it
	// has: as claims.Verifying has it. "": there is none.
	Rest      string
	Reference string // directory with a run to show as well; "" or missing: none
}

// Read reads the records, and makes their reports.
func (r Reporting) Read(ctx context.Context) (*claims.Reading, error) {
	if st, err := os.Stat(filepath.Join(r.Results, "records")); err != nil || !st.IsDir() {
		return nil, fmt.Errorf("%s has no records: want a directory written by gpipebench reproduce", r.Results)
	}
	return claims.Verifying{All: r.Papers, Results: r.Results, Rest: r.Rest, Reference: cmp.Or(r.Rest, r.Reference)}.Read(ctx)
}

// Pages returns the pages of what was read, as files of one directory. The first paper has a page,
// Index, and so has every other paper with records; each has another page with its claims, and one
// with its experiments that are apart; and there is the page on which schedules are moved. They need no file but each other, no network
// and, except for the last, no script.
func (r Reporting) Pages(ctx context.Context, reading *claims.Reading) (files []lab.File, err error) {
	v, err := reading.Judge()
	if err != nil {
		return nil, err
	}
	var all []*paperPage
	sections := 0
	for i, paper := range r.Papers {
		p, err := r.paper(ctx, paper, reading, false)
		if err != nil {
			return nil, err
		}
		apart, err := r.paper(ctx, paper, reading, true)
		if err != nil {
			return nil, err
		}
		own := v.Of(paper.Name)
		if p.Claims, err = newPageClaims(own); err != nil {
			return nil, err
		}
		if sections += len(p.sections) + len(apart.sections); i > 0 {
			p.File = paper.Name + ".html"
		}
		if i == 0 || len(p.sections) > 0 {
			all = append(all, p)
		}
		if len(apart.sections) > 0 {
			first := apart.sections[0]
			apart.Apart, apart.File = apart.Parts[0].Title, first.ID+".html"
			apart.Answer, first.About.Text = first.About.Text, ""
			own.Claims = slices.DeleteFunc(slices.Clone(own.Claims), func(c claims.Judgement) bool { return c.Command != "gpipebench "+first.ID })
			apart.Sentences = newPageTable(own.InSmall(), "ledger")
			apart.Sentences.Title, apart.Sentences.Fold = "What came of each sentence", true
			all = append(all, apart)
		}
	}
	if sections == 0 {
		return nil, fmt.Errorf("%s has no records of any experiment: run gpipebench reproduce --out %[1]s", r.Results)
	}
	all[0].Wrong = v.Wrong
	for _, p := range all {
		p.Papers = all
		for _, one := range []struct{ file, template string }{{p.File, "paper"}, {p.ClaimsFile(), "claims"}} {
			if one.template == "claims" && p.Claims == nil {
				continue
			}
			var text bytes.Buffer
			if err := pageTemplate.ExecuteTemplate(&text, one.template, p); err != nil {
				return nil, err
			}
			files = append(files, lab.File{Name: one.file, Text: text.String()})
		}
	}
	var text bytes.Buffer
	err = schedulepage.Write(&text, schedulepage.Given{Schedule: "gpipe", K: 4, M: 8, V: 1, F: 1, B: 1, W: 1, Whole: 1, Weights: 1})
	return append(files, lab.File{Name: schedules, Text: text.String()}), err
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"prose":      prose,
	"voices":     voiceStyles,
	"id":         idOf,
	"brief":      briefly,
	"paragraphs": func(text string) []string { return strings.Split(text, "\n\n") },
	"schedules":  func() string { return schedules },
}).Parse(pageText))

// paperPage is what the templates show of a paper.
type paperPage struct {
	Of       lab.Paper
	File     string
	Apart    string       // its name, of experiments that are apart
	Papers   []*paperPage // all that have a page
	Machines []string     // that the records are from, in words
	Kernels  []string
	Commits  []string
	From, To string // first and last session
	Profiles []string
	Parts    []pagePart
	Picture  *pagePlot   // that says most; nil: there is none, or its experiment has no records
	Missing  []string    // experiments without records
	Claims   *pageClaims // nil: of what is apart, which has Sentences
	Wrong    []string    // with these results; of the first paper, for all
	Origins  *pageTable  // a row for each experiment

	Answer    string     // of experiments that are apart: the first one's text, with which the page begins
	Sentences *pageTable // and what they show

	sections []*pageSection
}

// First reports whether it is the page that a reader opens first.
func (p *paperPage) First() bool { return p.File == Index }

// ClaimsFile is the page of the paper's claims.
func (p *paperPage) ClaimsFile() string { return p.Of.Name + "-claims.html" }

// Name is the paper in a word or a few.
func (p *paperPage) Name() string {
	name, _, _ := strings.Cut(p.Of.Title, ":")
	return cmp.Or(p.Apart, name)
}

// pagePart is experiments that have a heading of their own in the contents.
type pagePart struct {
	Title    string // "": none
	Sections []*pageSection
}

// paper is the page of a paper, of its experiments that are apart or of the others, without verdicts.
func (r Reporting) paper(ctx context.Context, paper lab.Paper, reading *claims.Reading, apart bool) (*paperPage, error) {
	p := &paperPage{Of: paper, File: Index}
	origins := &lab.Table{
		ID:    "origins",
		Title: "Each experiment's records",
	}
	origins.Texts("experiment", "profile", "last measured", "commit", "spec")
	origins.Numbers("samples")
	origins.Texts("seeds")
	origins.Numbers("processes", "load before")
	origins.Texts("machine")
	machines, kernels, commits, profiles := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, d := range paper.Experiments {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if d.Apart != apart {
			continue
		}
		if d.Part != "" || len(p.Parts) == 0 {
			p.Parts = append(p.Parts, pagePart{Title: d.Part})
		}
		x := reading.Experiment(d.ID)
		if x == nil {
			p.Missing = append(p.Missing, d.ID)
			continue
		}
		s := &pageSection{ID: d.ID, Title: x.Of.Title(), About: d.About()}
		p.sections = append(p.sections, s)
		part := &p.Parts[len(p.Parts)-1]
		part.Sections = append(part.Sections, s)
		log := x.Log
		if log == nil {
			s.Problem = x.State
			continue
		}
		s.Command = fmt.Sprintf("gpipebench reproduce --only %s --profile %s", d.ID, log.Key.Profile)
		for _, f := range s.fill(x, r.beside(x)) {
			if d.ID == paper.Picture && f.Name == d.ID+".svg" {
				drawn := newPagePlot(d.ID, f.Text, "headline")
				p.Picture = &drawn
			}
		}
		profiles[log.Key.Profile] = true
		own, load, seeds := map[string]bool{}, 0.0, "-"
		sessions := log.Measuring()
		for _, from := range sessions {
			m := from.Machine
			machines[fmt.Sprintf("%s, %d cores, %s/%s, %s", m.CPU, m.Cores, m.OS, m.Arch, m.Go)] = true
			kernels[m.Kernels] = true
			commits[lab.CommitName(from)], own[lab.CommitName(from)] = true, true
			if p.From == "" || from.Time < p.From {
				p.From = from.Time
			}
			p.To = max(p.To, from.Time)
			load = max(load, from.Load)
		}
		if of := log.Seeds(); len(of) > 0 {
			seeds = lab.JoinWith(of, ", ")
		}
		origins.Add(d.ID, log.Key.Profile, log.Session.Time, strings.Join(sortedKeys(own), ", "), log.Key.Spec,
			len(log.Names), seeds, len(sessions), lab.Fixed(load, 2), log.Session.Machine)
	}
	p.Parts = slices.DeleteFunc(p.Parts, func(part pagePart) bool { return len(part.Sections) == 0 })
	p.Machines, p.Kernels, p.Commits, p.Profiles = sortedKeys(machines), sortedKeys(kernels), sortedKeys(commits), sortedKeys(profiles)
	p.Origins = newPageTable(origins, "origins")
	return p, nil
}

// beside is what an experiment's section shows beside it; nil: nothing.
func (r Reporting) beside(x *claims.Examined) *records.Log {
	if r.Rest != "" && x.Results == r.Results {
		return x.Rest
	}
	if r.Reference == "" || files.SameDir(x.Results, r.Reference) {
		return nil
	}
	log, _ := x.Beside(r.Reference) // without them nothing is shown
	return log
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }
