package browser

import (
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

//go:embed report.js
var reportScript string

var results = flag.String("results", "", "directory of results whose pages and pictures are looked at")

// withoutLiberation is a configuration of fonts for a browser that does not see Liberation Sans,
// with which pictures are laid out.
const withoutLiberation = `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<include ignore_missing="yes">/etc/fonts/fonts.conf</include>
<selectfont><rejectfont><pattern><patelt name="family"><string>Liberation Sans</string></patelt></pattern></rejectfont></selectfont>
</fontconfig>
`

// The pages of a directory of results, with all that is closed in them opened, and every picture by
// itself: at the width of a phone, a desk and a large screen, in light and dark, with the fonts that are
// installed and without Liberation,
//
//   - nothing is wider than the window,
//   - nothing is said on the console, and no file but the page is asked for,
//   - every plot is legible: not flat, no letters below 9 pixels, beyond its edge or upon others,
//   - a desk shows what was measured in every table, and every verdict, without scrolling,
//   - and the first screen of a desk has the headline and the picture, if there are any.
func TestReport(t *testing.T) {
	if *results == "" {
		t.Skip("make check-report says which results")
	}
	scratch := t.TempDir()
	fonts, pictures := filepath.Join(scratch, "fonts.conf"), filepath.Join(scratch, "pictures.html")
	must(t, os.WriteFile(fonts, []byte(withoutLiberation), 0o600))
	must(t, os.WriteFile(pictures, []byte(picturesOf(t, filepath.Join(*results, "tables"))), 0o600))
	pages, err := filepath.Glob(filepath.Join(*results, "report", "*.html"))
	must(t, err)
	if len(pages) < 2 {
		t.Fatalf("%d pages in %s: want those that make report writes", len(pages), *results)
	}
	for name, env := range map[string][]string{"installed": nil, "without-liberation": {"FONTCONFIG_FILE=" + fonts}} {
		page := startChromium(t, env...)(t)
		for _, file := range append(pages, pictures) {
			if filepath.Base(file) == "schedule.html" {
				continue // has a test of its own
			}
			must(t, page.open("file://"+file))
			must(t, page.eval(reportScript+"; 0", nil))
			widths := []int{400, 1280, 1920}
			if file == pictures {
				widths = widths[1:2]
			}
			for _, width := range widths {
				for _, dark := range []bool{true, false} {
					must(t, page.resize(width, 3000, dark))
					var wrong []string
					must(t, page.eval("new Promise(r => requestAnimationFrame(() => r(test())))", &wrong))
					if len(wrong) > 0 {
						t.Errorf("%s, %d wide, dark %v, fonts %s: %s", filepath.Base(file), width, dark, name, strings.Join(wrong, "; "))
					}
					shoot(t, page, fmt.Sprintf("%s-%d-dark-%v-%s", strings.TrimSuffix(filepath.Base(file), ".html"), width, dark, name))
				}
			}
		}
		if said := page.console(); len(said) > 0 {
			t.Errorf("on the console: %q", said)
		}
	}
}

// picturesOf is a page of a directory's pictures by themselves, as they are in files: as wide as they say.
func picturesOf(t *testing.T, dir string) string {
	files, err := filepath.Glob(filepath.Join(dir, "*.svg"))
	must(t, err)
	page := `<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark"><link rel="icon" href="data:,"><body style="margin:0"><div style="overflow-x:auto">`
	for _, file := range files {
		svg, err := os.ReadFile(file)
		must(t, err)
		page += `<figure style="margin:0">` + string(svg[strings.Index(string(svg), "<svg"):]) + `</figure>`
	}
	return page + "</div>"
}
