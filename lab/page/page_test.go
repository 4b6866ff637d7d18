package page

import (
	"encoding/xml"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Another paper with records has a page of its own and one of its claims, which the first paper's
// page links; a directory without its records has neither.
func TestPageOfPapers(t *testing.T) {
	dir := t.TempDir()
	other := experiments.Papers[slices.IndexFunc(experiments.Papers, func(p lab.Paper) bool { return p.Name == "beyond" })]
	pages := func(only string) map[string]string {
		t.Helper()
		r := experiments.Reproducing{Profile: "smoke", Only: []string{only}, Out: dir}
		testkit.NoError(t, r.Run(t.Context(), progress.Silent{}, func(lab.Experiment, *lab.Report) error { return nil }))
		return testkit.Must(pagesOf(t, dir))(t)
	}
	got := pages("efficiency")
	if len(got) != 3 || got["gpipe-claims.html"] == "" || got[schedules] == "" || strings.Contains(got[Index], other.Name) || !strings.Contains(got[Index], "have no records of: table1") {
		t.Errorf("without records of %s: %v", other.Name, slices.Sorted(maps.Keys(got)))
	}
	got = pages("replicas-modelled")
	own := got[other.Name+".html"]
	if len(got) != 5 || !strings.Contains(got[Index], `<a href="`+other.Name+`.html">`) || !strings.Contains(own, `<a href="index.html">`) {
		t.Errorf("pages %v do not lead to each other", slices.Sorted(maps.Keys(got)))
	}
	for id, on := range map[string]string{"efficiency": Index, "replicas-modelled": other.Name + ".html"} {
		for name, text := range got {
			testkit.Equal(t, strings.Contains(text, `<h2 id="`+id+`">`), (name == on), "%s has a section of %s", name, id)
		}
	}
	testkit.Has(t, own, "claims of "+other.Of, "<b>Replicas</b>")
}

// Two lines of a caption are seen: sentences that fit, and at least one.
func TestBriefly(t *testing.T) {
	long := "Long " + strings.Repeat("(e.g. A) ", 40) + "end."
	for _, test := range []struct {
		text []string
		want brief
	}{
		{nil, brief{}},
		{[]string{"One. Two (a. B is no end). `three`.", "Four."}, brief{Lead: "One. Two (a. B is no end). `three`.", Rest: []string{"Four."}}},
		{[]string{"One by Lee et al. Here it ends. " + long}, brief{Lead: "One by Lee et al. Here it ends.", Rest: []string{long}}},
		{[]string{long + " More."}, brief{Lead: long, Rest: []string{"More."}}},
	} {
		if got := briefly("", test.text); got.Lead != test.want.Lead || !slices.Equal(got.Rest, test.want.Rest) {
			t.Errorf("%.60q: %q and %q", test.text, got.Lead, got.Rest)
		}
	}
}

// pagesOf returns the pages of a directory of results, by file.
func pagesOf(t *testing.T, dir string) (map[string]string, error) {
	r := Reporting{Papers: experiments.Papers, Results: dir}
	reading, err := r.Read(t.Context())
	if err != nil {
		return nil, err
	}
	files, err := r.Pages(t.Context(), reading)
	made := map[string]string{}
	for _, f := range files {
		made[f.Name] = f.Text
	}
	return made, err
}

func TestHTMLReportRefuses(t *testing.T) {
	empty := t.TempDir()
	var usage *failure.UsageError
	if _, err := pagesOf(t, empty); err == nil || errors.As(err, &usage) {
		t.Errorf("a directory without records: %v; want a failure", err)
	}
	testkit.NoError(t, os.Mkdir(filepath.Join(empty, "records"), 0o755))
	testkit.Refused(pagesOf(t, empty))(t)
}

func TestInlineSVG(t *testing.T) {
	const picture = `<?xml version="1.0"?>
<!-- made by a program -->
<svg xmlns="http://www.w3.org/2000/svg" width="2" height="2" viewBox="0 0 2 2"><style>
text { fill: #1a1a1a }
.end, .tick { x: y }
@media (prefers-color-scheme: dark) {
.lane { fill: #202328 }
}
</style>
<defs><pattern id="idle"/></defs><rect fill="url(#idle)"/><path style="fill:#FFFFFF;stroke:#000000"/><path style="fill:#D55E00"/></svg>`
	got := string(inlineSVG(picture, "p.1"))
	testkit.Has(t, got,
		`<svg class="p-1" xmlns=`, "\n.p-1 text {", "\n.p-1 .end, .p-1 .tick {", "@media screen and (prefers-color-scheme: dark) {\n.p-1 .lane {",
		`id="p-1-idle"`, `url(#p-1-idle)`, `fill:none;stroke:var(--ink)`, `fill:#D55E00`)
	if strings.Contains(got, "<?xml") || strings.Contains(got, "<!--") {
		t.Errorf("what is before the element is still there:\n%s", got)
	}
	testkit.Equal(t, xml.Unmarshal([]byte(got), new(struct{})), nil)
}

// Heads of columns have the colours of plots. A figure of ours is taken apart,
// another picture is shown as it is.
func TestPagePlot(t *testing.T) {
	css := string(voiceStyles())
	testkit.Has(t, css, "th.paper { border-bottom-color: #D55E00 }", "th.measured { border-bottom-color: var(--blue) }", "th.torchgpipe")
	bars := &plot.BarPanel{Names: []string{"K = 2"}, Series: []plot.BarSeries{{Name: "paper", Values: []float64{1}}, {Name: "measured", Values: []float64{2}}}}
	files := testkit.Must(plot.Files("p", lab.Heading{Finding: "It is " + strings.Repeat("twice ", 30) + "as much", Subject: "A title"}, []plot.Axes{bars, bars}))(t)
	p := newPagePlot("p", files[0].Text, "of-test")
	if len(p.Panels) != 2 || len(p.Legend) != 2 || p.SVG != "" || p.Wide {
		t.Errorf("%d panels, %d names, %q", len(p.Panels), len(p.Legend), p.SVG)
	}
	if p.Finding != "It is "+strings.Repeat("twice ", 30)+"as much" || p.Subject != "A title" {
		t.Errorf("heading %q, %q", p.Finding, p.Subject)
	}
	for i, want := range []string{"paper", "measured"} {
		if got := p.Legend[i]; got.Name != want || strings.Count(string(got.Sign), "<svg") != 1 || strings.Contains(string(got.Sign), "<text") {
			t.Errorf("entry %d is %q, %s", i, got.Name, got.Sign)
		}
	}
	for _, piece := range p.Panels {
		if n := strings.Count(string(piece), "<svg"); n != 1 || !strings.Contains(string(piece), `<svg class="of-test"`) || strings.Contains(string(piece), "A title") {
			t.Errorf("%d elements in %.200s", n, piece)
		}
	}
	if whole := newPagePlot("t", `<svg width="2" height="2"><rect/></svg>`, "of-test"); whole.SVG == "" || whole.Panels != nil {
		t.Errorf("another picture: %+v", whole)
	}
}
