package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/failure"
	"gpipebench/internal/progress"
	"gpipebench/lab"
	"gpipebench/lab/plot"
)

// Another paper has a heading of its own, before its first experiment, and a choice among
// the claims; a directory without its records has neither.
func TestPageOfPapers(t *testing.T) {
	dir := t.TempDir()
	other := experiments.Papers[slices.IndexFunc(experiments.Papers, func(p lab.Paper) bool { return p.Name == "beyond" })]
	page := func(only string) string {
		t.Helper()
		r := experiments.Reproducing{Profile: "smoke", Only: []string{only}, Out: dir}
		if err := r.Run(t.Context(), progress.Silent{}, func(lab.Experiment, *lab.Report) error { return nil }); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := written(t, dir, &b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	heading, choice := `<h2 class="part">`+other.Title+"</h2>", `id="only-ledger-`+other.Name+`"`
	if got := page("efficiency"); strings.Contains(got, heading) || strings.Contains(got, choice) || strings.Contains(got, "replicas-modelled") || !strings.Contains(got, "have no records of: table1") {
		t.Errorf("without its records the page speaks of %s", other.Name)
	}
	got := page("replicas-modelled")
	if at := strings.Index(got, heading); at < 0 || strings.Count(got, heading) != 1 || at < strings.Index(got, `<h2 id="efficiency">`) || at > strings.Index(got, `<h2 id="replicas-modelled">`) {
		t.Errorf("the heading of %s is at %d", other.Name, at)
	}
	if !strings.Contains(got, choice) || !strings.Contains(got, "claims of "+experiments.Papers[0].Of+" and of "+other.Of) {
		t.Errorf("no claims of %s", other.Name)
	}
}

// written writes the page of a directory.
func written(t *testing.T, dir string, w io.Writer) error {
	r := Reporting{Results: dir}
	reading, err := r.Read(t.Context())
	if err != nil {
		return err
	}
	return r.Write(t.Context(), reading, w)
}

func TestHTMLReportRefuses(t *testing.T) {
	empty := t.TempDir()
	var usage *failure.UsageError
	if err := written(t, empty, io.Discard); err == nil || errors.As(err, &usage) {
		t.Errorf("a directory without records: %v; want a failure", err)
	}
	if err := os.Mkdir(filepath.Join(empty, "records"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := written(t, empty, io.Discard); err == nil {
		t.Error("no record of anything: no error")
	}
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
	for _, want := range []string{
		`<svg class="p-1" xmlns=`, "\n.p-1 text {", "\n.p-1 .end, .p-1 .tick {", "@media screen and (prefers-color-scheme: dark) {\n.p-1 .lane {",
		`id="p-1-idle"`, `url(#p-1-idle)`, `fill:none;stroke:var(--ink)`, `fill:#D55E00`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "<?xml") || strings.Contains(got, "<!--") {
		t.Errorf("what is before the element is still there:\n%s", got)
	}
	if err := xml.Unmarshal([]byte(got), new(struct{})); err != nil {
		t.Error(err)
	}
}

// Heads of columns have the colours of plots. A figure of ours is taken apart,
// another picture is shown as it is.
func TestPagePlot(t *testing.T) {
	css := string(voiceStyles())
	for _, want := range []string{"th.paper { border-bottom-color: #D55E00 }", "th.measured { border-bottom-color: var(--blue) }", "th.torchgpipe"} {
		if !strings.Contains(css, want) {
			t.Errorf("no %q in %s", want, css)
		}
	}
	bars := &plot.BarPanel{Names: []string{"K = 2"}, Series: []plot.BarSeries{{Name: "paper", Values: []float64{1}}, {Name: "measured", Values: []float64{2}}}}
	files, err := plot.Files("p", "A title", []plot.Axes{bars, bars})
	if err != nil {
		t.Fatal(err)
	}
	p := newPagePlot("p", files[0].Text, "of-test")
	if len(p.Panels) != 2 || len(p.Legend) != 2 || p.SVG != "" {
		t.Errorf("%d panels, %d names, %q", len(p.Panels), len(p.Legend), p.SVG)
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
