package page

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strconv"
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

var (
	svgProlog   = regexp.MustCompile(`(?s)^.*?<svg`)
	svgComment  = regexp.MustCompile(`(?s)<!--.*?-->`)
	svgStyle    = regexp.MustCompile(`(?s)<style>\n?(.*?)</style>`)
	svgRule     = regexp.MustCompile(`(?m)^([^@{}\n][^{}\n]*)\{`)
	svgHexColor = regexp.MustCompile(`(fill|stroke):#([0-9A-F]{6})`)
	notClass    = regexp.MustCompile(`[^\w-]`)
	svgID       = regexp.MustCompile(`( id="|url\(#)([A-Za-z][\w-]*)`)
)

var (
	svgGround = regexp.MustCompile(`(?m)^<path d="[^"]*" style="fill:#FFFFFF" />\n`)
	svgPath   = regexp.MustCompile(` d="[^"]*"`)
	svgNumber = regexp.MustCompile(`[0-9]+\.[0-9]{2,}`)
)

// shorter is a piece of a figure without what the page's style sheet says of all: the ground, the
// font, the direction of letters and that lines are not filled. Places are tenths of a point.
func shorter(piece string) string {
	piece = svgGround.ReplaceAllString(piece, "")
	piece = svgPath.ReplaceAllStringFunc(piece, func(d string) string {
		return svgNumber.ReplaceAllStringFunc(d, func(number string) string {
			x, err := strconv.ParseFloat(number, 64)
			if err != nil {
				panic(err) // the expression has found it
			}
			return strconv.FormatFloat(math.Round(10*x)/10, 'f', -1, 64)
		})
	})
	return strings.NewReplacer(
		"font-family:'Liberation Sans',Arial,Helvetica,sans-serif;", "", ` transform="scale(1, -1)"`, "", `style="fill:none;stroke`, `style="stroke`,
	).Replace(piece)
}

// themed are the colours of plots that differ on a dark page; the page's style sheet
// has them.
var themed = map[string]string{
	"FFFFFF": "none", // the ground is the page's
	"000000": "var(--ink)",
	"222222": "var(--ink)",
	"808080": "var(--grid)",
	"DDEEF8": "var(--band)",
	"CCCCCC": "var(--range)",
	"0072B2": "var(--blue)",
	"999999": "var(--pale)",
	"555555": "var(--strong)",
}

// voiceStyles gives the heads of columns the colours that plots have for the same
// voice.
func voiceStyles() template.CSS {
	var b strings.Builder
	for _, v := range plot.Voices {
		if !strings.Contains(v.Prefix, " ") {
			r, g, blue, _ := v.Inks[0].RGBA()
			fmt.Fprintf(&b, "th.%s { border-bottom-color: %s }\n", v.Prefix, pageColor(fmt.Sprintf("%02X%02X%02X", r>>8, g>>8, blue>>8)))
		}
	}
	return template.CSS(b.String())
}

// pageColor returns the page's name of a colour of six hexadecimal digits.
func pageColor(hex string) string {
	if other, ok := themed[hex]; ok {
		return other
	}
	return "#" + hex
}

// inlineSVG returns a picture as part of a page: without what comes before the element,
// with ids and rules of its own, and with the page's colours where others would not
// show on dark ground. Scope is the element's class, unique in the page.
func inlineSVG(text, scope string) template.HTML {
	scope = notClass.ReplaceAllString(scope, "-")
	text = svgComment.ReplaceAllString(text, "")
	text = svgProlog.ReplaceAllString(text, `<svg class="`+scope+`"`)
	text = svgStyle.ReplaceAllStringFunc(text, func(style string) string {
		rules := svgStyle.FindStringSubmatch(style)[1]
		rules = svgRule.ReplaceAllStringFunc(rules, func(rule string) string {
			selectors := strings.Split(strings.TrimSuffix(rule, "{"), ",")
			for i, s := range selectors {
				selectors[i] = "." + scope + " " + strings.TrimSpace(s)
			}
			return strings.Join(selectors, ", ") + " {"
		})
		rules = strings.ReplaceAll(rules, "@media (prefers-color-scheme", "@media screen and (prefers-color-scheme")
		return "<style>\n" + rules + "</style>"
	})
	text = svgID.ReplaceAllString(text, "${1}"+scope+"-${2}")
	text = svgHexColor.ReplaceAllStringFunc(text, func(color string) string {
		property, hex, _ := strings.Cut(color, ":#")
		return property + ":" + pageColor(hex)
	})
	return template.HTML(text)
}
