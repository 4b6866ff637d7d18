package page

import (
	"fmt"
	"html/template"
	"regexp"
	"strings"
	"unicode/utf8"

	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/plot"
	"gpipebench/lab/records"
)

// pageSection is an experiment.
type pageSection struct {
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
	Name    string
	Finding string // what it shows; "": nothing is said
	Subject string // what it is of
	SVG     template.HTML
	Legend  []pageSign
	Panels  []template.HTML
	Wide    bool // panels have a line each
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
		drawn := inlineSVG(shorter(piece.Text), scope)
		switch piece.Class {
		case "finding":
			p.Finding = strings.TrimSpace(p.Finding + " " + piece.Label)
		case "subject":
			p.Subject = strings.TrimSpace(p.Subject + " " + piece.Label)
		case "sign":
			p.Legend = append(p.Legend, pageSign{drawn, piece.Label})
		case "panel":
			p.Panels, p.Wide = append(p.Panels, drawn), p.Wide || piece.Wide
		}
	}
	return p
}

// pageDrawing is a drawing made of letters.
type pageDrawing struct{ Name, Text string }

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
	for i, t := range report.Tables {
		shown := newPageTable(t, "")
		shown.Fold = shown.Fold || i > 0
		if t.Title != s.Title {
			shown.Heading = t.Title
		}
		s.Tables = append(s.Tables, shown)
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

// brief is a text of which a reader sees two lines, and the rest on demand.
type brief struct {
	Class string // of its paragraphs
	Lead  string
	Rest  []string
}

// twoLines is how many letters two lines of a caption have room for.
const twoLines = 230

// briefly divides a text of paragraphs after the last sentence of the first that two lines have
// room for, but not before the end of its first.
func briefly(class string, all []string) brief {
	b := brief{Class: class}
	if len(all) == 0 {
		return b
	}
	end := len(all[0])
	if ends := sentenceEnds(all[0]); len(ends) > 0 {
		end = ends[0]
		for _, at := range ends {
			if utf8.RuneCountInString(all[0][:at]) <= twoLines {
				end = at
			}
		}
	}
	b.Lead = all[0][:end]
	if rest := strings.TrimSpace(all[0][end:]); rest != "" {
		b.Rest = append(b.Rest, rest)
	}
	b.Rest = append(b.Rest, all[1:]...)
	return b
}

var sentenceEnd = regexp.MustCompile("[.!?][)\"]?\\s+[\"(`]?\\p{Lu}")

// sentenceEnds are where sentences of a text end, outside of brackets; the last is the text's end.
func sentenceEnds(text string) (ends []int) {
	for _, at := range sentenceEnd.FindAllStringIndex(text, -1) {
		end := at[0] + 1
		before := text[:end]
		if strings.HasSuffix(before, " al.") || strings.Count(before, "(") > strings.Count(before, ")") {
			continue
		}
		ends = append(ends, end)
	}
	return append(ends, len(text))
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
