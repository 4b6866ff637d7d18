package claims_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/lab/claims"
	"gpipebench/lab/page"
)

// The page is the same bytes each time, has a section for each experiment that
// has records, needs nothing from elsewhere, and its links lead somewhere.
func TestHTMLReport(t *testing.T) {
	reading := claims.Committed(t, claims.FullDir)
	var pages [2]bytes.Buffer
	for i := range pages {
		if err := (page.Reporting{Results: claims.FullDir, Rest: claims.QuickDir}).Write(t.Context(), reading, &pages[i]); err != nil {
			t.Fatal(err)
		}
	}
	text := pages[0].String()
	if text != pages[1].String() {
		t.Error("two pages of the same records differ")
	}
	for _, id := range experiments.IDs() {
		_, err := os.Stat(filepath.Join(claims.QuickDir, "records", id+".jsonl"))
		if has := strings.Contains(text, `<h2 id="`+id+`">`); has != (err == nil) {
			t.Errorf("section of %s: %v, records: %v", id, has, err == nil)
		}
	}
	for _, loads := range []string{"<script", "<link rel=\"stylesheet", " src=", "@import", "url(http"} {
		if strings.Contains(text, loads) {
			t.Errorf("the page has %s", loads)
		}
	}
	ids := map[string]int{}
	for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if ids[m[1]]++; ids[m[1]] == 2 {
			t.Errorf("two elements with id %s", m[1])
		}
	}
	for _, m := range regexp.MustCompile(`(?:href="|url\()#([^")]*)`).FindAllStringSubmatch(text, -1) {
		if ids[m[1]] == 0 {
			t.Errorf("nothing has the id %s", m[1])
		}
	}
}
