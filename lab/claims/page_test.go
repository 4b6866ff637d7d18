package claims_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/claims"
	"gpipebench/lab/page"
)

// mostBytes is how large the page that a reader opens first may be, and every other.
const mostBytes = 1_000_000

// The pages are the same bytes each time, and none is large. Each experiment that has records has a
// section on the page of its paper and nowhere else, with its tables and plots; they need nothing
// from elsewhere, and their links lead somewhere, to each other as well.
func TestHTMLReport(t *testing.T) {
	reading := claims.Committed(t, claims.FullDir)
	made := func() []lab.File {
		return testkit.Must(page.Reporting{Papers: experiments.Papers, Results: claims.FullDir, Rest: claims.QuickDir}.Pages(t.Context(), reading))(t)
	}
	pages, again := made(), made()
	ids, text := map[string]map[string]int{}, map[string]string{} // by page
	for i, p := range pages {
		testkit.Equal(t, p, again[i], "two pages %s of the same records differ", p.Name)
		if len(p.Text) >= mostBytes {
			t.Errorf("%s has %d bytes, want less than %d", p.Name, len(p.Text), mostBytes)
		}
		t.Logf("%s: %d bytes", p.Name, len(p.Text))
		ids[p.Name], text[p.Name] = map[string]int{}, p.Text
		if strings.Contains(p.Text, "<script") { // the one on which schedules are moved
			testkit.Equal(t, p.Name, "schedule.html", "the page with a script")
			continue
		}
		testkit.Has(t, p.Text, `http-equiv="Content-Security-Policy" content="default-src 'none'`)
		for _, loads := range []string{"<link rel=\"stylesheet", " src=", "@import", "url(http"} {
			if strings.Contains(p.Text, loads) {
				t.Errorf("%s has %s", p.Name, loads)
			}
		}
		for _, m := range regexp.MustCompile(` id="([^"]*)"`).FindAllStringSubmatch(p.Text, -1) {
			if ids[p.Name][m[1]]++; ids[p.Name][m[1]] == 2 {
				t.Errorf("%s: two elements with id %s", p.Name, m[1])
			}
		}
	}
	for _, p := range pages {
		for _, m := range regexp.MustCompile(`(?:href="|url\()([^")#]*)(?:#([^")]*))?["\)]`).FindAllStringSubmatch(p.Text, -1) {
			file, id := m[1], m[2]
			if file == "" {
				file = p.Name
			}
			if strings.HasPrefix(file, "https://") || file == "data:," {
				continue
			}
			if there := ids[file]; there == nil || id != "" && there[id] == 0 {
				t.Errorf("%s: nothing is at %s#%s", p.Name, file, id)
			}
		}
	}
	for name, parts := range map[string][]string{
		page.Index:      {"<h1>GPipe", `<table class="headline answer"`, `aria-label="Plot table2"`, `<h2 id="claims">`},
		"section6.html": {"<h1>Section 6", "Was GPipe right about SPMD and PipeDream?", "What came of each sentence", `<h2 id="section6">`},
	} {
		rest := text[name]
		for _, next := range parts {
			var there bool
			if _, rest, there = strings.Cut(rest, next); !there {
				t.Fatalf("%s is not on %s where it belongs", next, name)
			}
		}
	}
	for i, paper := range experiments.Papers {
		for _, d := range paper.Experiments {
			own := paper.Name + ".html"
			switch {
			case d.Apart:
				own = "section6.html"
			case i == 0:
				own = page.Index
			}
			_, err := os.Stat(filepath.Join(claims.QuickDir, "records", d.ID+".jsonl"))
			want := []string{}
			if err == nil {
				want = append(want, d.ID)
				report := testkit.Must(reading.Experiment(d.ID).Report(reading.Experiment(d.ID).Rest))(t)
				for i, table := range report.Tables {
					want = append(want, "t-"+table.ID)
					before, _, _ := strings.Cut(text[own], `id="t-`+table.ID+`"`)
					if closed := strings.LastIndex(before, `<details class="table">`) > strings.LastIndex(before, "</table>"); i > 0 && !closed {
						t.Errorf("%s: table %s is open", own, table.ID)
					}
				}
				for _, f := range report.Files {
					if name, ok := strings.CutSuffix(f.Name, ".svg"); ok {
						want = append(want, d.ID+"-"+name+"-plot")
					}
				}
			}
			for _, id := range want {
				for _, p := range pages {
					testkit.Equal(t, ids[p.Name][id] > 0, p.Name == own, "%s has %s", p.Name, id)
				}
			}
		}
	}
}

// What the first text on section 6 answers in words is what the claims come to.
func TestAnswerOfSection6(t *testing.T) {
	says := experiments.Papers[0].Experiment("section6").About().Text
	verdicts := map[string]claims.Verdict{}
	for _, c := range claims.VerdictsOf(t, claims.FullDir).Claims {
		verdicts[c.ID] = c.Verdict
	}
	for _, of := range []struct {
		says string
		want claims.Verdict
		ids  []string
	}{
		{"Over slow links SPMD is far slower than pipeline stages", claims.Agrees, []string{"section6-fast-links-24", "section6-fast-links-48", "section6-emulated-links"}},
		{"PipeDream holds only smaller models", claims.Agrees, []string{"section6-bigger-models"}},
		{"Designs that the paper does not mention are faster still: between TPUs, a combination of stages and SPMD beats stages alone", claims.DoesNotHold, []string{"section6-mixture-24", "section6-mixture-48"}},
		{"GPipe's transfers are marginal for Transformers even over PCI-E", claims.Agrees, []string{"section6-marginal-transformer", "section6-emulated-marginal"}},
		{"but not for AmoebaNet-D", claims.Disagrees, []string{"section6-marginal-amoebanet"}},
		{"which PipeDream trains faster there", claims.Holds, []string{"section6-busy"}},
		{"beats GPipe everywhere", claims.Holds, []string{"section6-busy-2bw"}},
		{"suffers from stale weights under PipeDream on 8 partitions", claims.Agrees, []string{"section6-stale"}},
		{"more so without stashed versions", claims.Agrees, []string{"section6-no-versions"}},
		{"PipeDream-2BW loses less, though more than the margin", claims.DoesNotHold, []string{"section6-two-versions"}},
		{"GPipe reaches its own final loss sooner than PipeDream", claims.Agrees, []string{"section6-time"}},
	} {
		testkit.Has(t, says, of.says)
		for _, id := range of.ids {
			testkit.Equal(t, verdicts[id], of.want, "%q, but %s", of.says, id)
		}
	}
}

// Every plot says above it what it shows, with figures of its tables.
func TestFindings(t *testing.T) {
	reading := claims.Committed(t, claims.FullDir)
	for _, d := range experiments.List() {
		x := reading.Experiment(d.ID)
		if x == nil || !x.Usable {
			continue
		}
		report := testkit.Must(x.Report(x.Rest))(t)
		for _, f := range report.Files {
			if !strings.Contains(f.Text, `<svg class="panel"`) {
				continue // a timeline
			}
			finding := regexp.MustCompile(`<svg class="finding" aria-label="([^"]*)"`).FindAllStringSubmatch(f.Text, -1)
			if len(finding) == 0 {
				t.Errorf("%s has no finding", f.Name)
				continue
			}
			says := ""
			for _, line := range finding {
				says += line[1] + " "
			}
			if !regexp.MustCompile(`[0-9]`).MatchString(says) || strings.ContainsAny(says, "{}") {
				t.Errorf("%s: %q has no figure", f.Name, says)
			}
			t.Logf("%s: %s", f.Name, says)
		}
	}
}
