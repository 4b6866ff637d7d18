package page

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/experiments/plot"
	"gpipebench/experiments/suite/suitetest"
	"gpipebench/internal/usage"
)

// The page is the same bytes each time, has a section for each experiment that
// has records, needs nothing from elsewhere, and its links lead somewhere.
func TestHTMLReport(t *testing.T) {
	suitetest.RendersReference(t)
	dir := filepath.Join("..", "..", "results", "reference")
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		t.Skip("no reference yet")
	}
	var pages [2]bytes.Buffer
	for i := range pages {
		if err := (Reporting{Results: dir}).Write(t.Context(), &pages[i]); err != nil {
			t.Fatal(err)
		}
	}
	page := pages[0].String()
	if page != pages[1].String() {
		t.Error("two pages of the same records differ")
	}
	for _, id := range experiments.IDs() {
		_, err := os.Stat(filepath.Join(dir, "records", id+".jsonl"))
		if has := strings.Contains(page, `<h2 id="`+id+`">`); has != (err == nil) {
			t.Errorf("section of %s: %v, records: %v", id, has, err == nil)
		}
	}
	for _, loads := range []string{"<script", "<link rel=\"stylesheet", " src=", "@import", "url(http"} {
		if strings.Contains(page, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]]++; ids[m[1]] == 2 {
			t.Errorf("two elements with id %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?:href="|url\()#([^")]*)`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("nothing has the id %s", m[1])
		}
	}
}

func TestHTMLReportRefuses(t *testing.T) {
	empty := t.TempDir()
	var usage *usage.Error
	if err := (Reporting{Results: empty}).Write(t.Context(), io.Discard); err == nil || errors.As(err, &usage) {
		t.Errorf("a directory without records: %v; want a failure", err)
	}
	if err := os.Mkdir(filepath.Join(empty, "records"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (Reporting{Results: empty}).Write(t.Context(), io.Discard); err == nil {
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
