package page

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/experiments"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// Reporting makes one page of a directory of results: the claims' verdicts, the
// tables, the plots and the provenance. The page is computed from the records, as the
// tables are, and the same records give the same bytes.
type Reporting struct {
	Results string // a directory that reproduce has written, with records
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
	return claims.Verifying{All: experiments.Papers, Results: r.Results, Rest: r.Rest, Reference: cmp.Or(r.Rest, r.Reference)}.Read(ctx)
}

// Write writes the page of what was read as HTML that needs no other file, network or script.
func (r Reporting) Write(ctx context.Context, reading *claims.Reading, w io.Writer) error {
	p, err := r.page(ctx, reading)
	if err != nil {
		return err
	}
	return pageTemplate.Execute(w, p)
}

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("report").Funcs(template.FuncMap{
	"prose":  prose,
	"voices": voiceStyles,
	"id":     idOf,
	"dict":   func(t *pageTable, anchor string) map[string]any { return map[string]any{"Table": t, "Anchor": anchor} },
}).Parse(pageText))

// page is what the template shows.
type page struct {
	Title    string
	Machines []string // that the records are from, in words
	Kernels  []string
	Commits  []string
	From, To string // first and last session
	Profiles []string
	Sections []*pageSection
	Picture  *pagePlot // that says most; nil: its experiment has no records
	Missing  []string  // experiments without records, of the first paper and of those that have some
	Claims   *pageClaims
	Origins  *pageTable // a row for each experiment
}

// pageSection is an experiment.
type pageSection struct {
	Part     string // the heading before the first of another paper
	ID       string
	Title    string
	About    lab.About
	Command  string
	Plots    []pagePlot
	Texts    []pageDrawing
	Tables   []*pageTable
	Files    []string // of the tables' directory, that are not on the page
	Origin   string   // of the numbers
	Warnings []string // about the records, and what must not be
	Problem  string   // why there is nothing to show
}

// pagePlot is a figure: whole, or the pieces of one that the page lays out by its
// width.
type pagePlot struct {
	Name   string
	SVG    template.HTML
	Legend []pageSign
	Panels []template.HTML
}

// pageSign is an entry of a legend: its name is text of the page, in the page's font.
type pageSign struct {
	Sign template.HTML
	Name string
}

func newPagePlot(name, text, scope string) pagePlot {
	p := pagePlot{Name: name}
	pieces := plot.FigurePieces(text)
	if len(pieces) == 0 {
		p.SVG = inlineSVG(text, scope)
		return p
	}
	for _, piece := range pieces {
		drawn := inlineSVG(piece.Text, scope)
		switch piece.Class {
		case "sign":
			p.Legend = append(p.Legend, pageSign{drawn, piece.Label})
		case "panel":
			p.Panels = append(p.Panels, drawn)
		}
	}
	return p
}

// pageDrawing is a drawing made of letters.
type pageDrawing struct{ Name, Text string }

func (r Reporting) page(ctx context.Context, reading *claims.Reading) (*page, error) {
	p := &page{Title: "GPipe, reproduced: tables, figures and claims"}
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
	for i, paper := range experiments.Papers {
		var missing []string
		sections := len(p.Sections)
		for _, d := range paper.Experiments {
			id := d.ID
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			x := reading.Experiment(id)
			if x == nil {
				missing = append(missing, id)
				continue
			}
			s := &pageSection{ID: id, Title: x.Of.Title(), About: d.About()}
			p.Sections = append(p.Sections, s)
			log := x.Log
			if log == nil {
				s.Problem = x.State
				continue
			}
			s.Command = fmt.Sprintf("gpipebench reproduce --only %s --profile %s", id, log.Key.Profile)
			for _, f := range s.fill(x, r.beside(x)) {
				if id == experiments.Papers[0].Picture && f.Name == id+".svg" {
					drawn := newPagePlot(id, f.Text, "headline")
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
				seeds = strings.ReplaceAll(strings.Trim(fmt.Sprint(of), "[]"), " ", ", ")
			}
			origins.Add(id, log.Key.Profile, log.Session.Time, strings.Join(sortedKeys(own), ", "), log.Key.Spec,
				len(log.Names), seeds, len(sessions), lab.Fixed(load, 2), log.Session.Machine)
		}
		if len(p.Sections) > sections && i > 0 {
			p.Sections[sections].Part = paper.Title
		}
		if len(p.Sections) > sections || i == 0 {
			p.Missing = append(p.Missing, missing...)
		}
	}
	if len(p.Sections) == 0 {
		return nil, fmt.Errorf("%s has no records of any experiment: run gpipebench reproduce --out %[1]s", r.Results)
	}
	p.Machines, p.Kernels, p.Commits, p.Profiles = sortedKeys(machines), sortedKeys(kernels), sortedKeys(commits), sortedKeys(profiles)
	p.Origins = newPageTable(origins, "origins")
	v, err := reading.Judge()
	if err != nil {
		return nil, err
	}
	p.Claims, err = newPageClaims(v)
	return p, err
}

// beside is what an experiment's section shows beside it; nil: nothing.
func (r Reporting) beside(x *claims.Examined) *records.Log {
	if r.Rest != "" && x.Results == r.Results {
		return x.Rest
	}
	return experiments.Reproducing{Out: x.Results, Reference: r.Reference}.ReferenceOf(x.Of, progress.Silent{})
}

func sortedKeys(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// fill computes what a section shows, and returns the files of its report.
func (s *pageSection) fill(x *claims.Examined, beside *records.Log) []lab.File {
	log := x.Log
	report, err := x.Report(beside)
	if err != nil {
		s.Problem = err.Error()
		return nil
	}
	s.Origin = lab.SeedsNote(log) + " " + lab.ProvenanceNote(log) // once, not under every table
	if log.Damaged != "" {
		s.Warnings = append(s.Warnings, "Damaged records were skipped: "+log.Damaged+".")
	}
	if now := x.Of.Key(log.Key.Profile).Spec; now != log.Key.Spec {
		s.Warnings = append(s.Warnings, fmt.Sprintf("Measured with spec %s. The spec has changed since (now %s), so the claims above do not use these records.", log.Key.Spec, now))
	}
	if report.Verdict != nil {
		s.Warnings = append(s.Warnings, report.Verdict.Error())
	}
	for _, t := range report.Tables {
		s.Tables = append(s.Tables, newPageTable(t, ""))
		s.Files = append(s.Files, t.ID+".csv")
	}
	drawn := map[string]bool{}
	for _, f := range report.Files {
		if base, ok := strings.CutSuffix(f.Name, ".svg"); ok {
			drawn[base] = true
			s.Plots = append(s.Plots, newPagePlot(base, f.Text, s.ID+"-"+base))
		}
	}
	for _, f := range report.Files {
		base, letters := strings.CutSuffix(f.Name, ".txt")
		switch {
		case letters && strings.HasSuffix(base, ".timeline") && !drawn[base]:
			s.Texts = append(s.Texts, pageDrawing{base, f.Text})
		case !strings.HasSuffix(f.Name, ".svg"):
			s.Files = append(s.Files, f.Name)
		}
	}
	return report.Files
}

// prose returns a text as HTML, with what is between backquotes as code.
func prose(text string) template.HTML {
	var b strings.Builder
	for i, part := range strings.Split(text, "`") {
		part = template.HTMLEscapeString(part)
		if i%2 == 1 {
			part = "<code>" + part + "</code>"
		}
		b.WriteString(part)
	}
	return template.HTML(b.String())
}
