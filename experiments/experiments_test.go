package experiments

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/gpipe"
	"gpipebench/gpipe/place"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
)

// Use -update where a table is meant to look different, and read the diff.
var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "65536": 65536, "64MiB": 64 << 20, "1.5GiB": 3 << 29, "2GB": 2e9, "3kB": 3000, "7B": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1e30", "12 apples", "NaN"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 3 << 29: "1.50 GiB"} {
		if got := FormatBytes(n); got != want {
			t.Errorf("FormatBytes(%d) = %q, want %q", n, got, want)
		}
	}
	for s, want := range map[float64]string{0: "0 s", 1.5: "1.5 s", 0.0125: "12.5 ms", 2e-6: "2 us"} {
		if got := FormatSeconds(s); got != want {
			t.Errorf("FormatSeconds(%v) = %q, want %q", s, got, want)
		}
	}
}

// The ranks of the 95% interval, from tables of the sign test.
func TestInterval(t *testing.T) {
	for n, rank := range map[int]int{1: 0, 5: 0, 6: 1, 8: 1, 9: 2, 10: 2, 15: 4, 20: 6, 25: 8, 50: 18} {
		var values []float64
		for i := n; i >= 1; i-- {
			values = append(values, float64(i))
		}
		lo, hi, ok := interval(values, 0.95)
		if ok != (rank > 0) || ok && (lo != float64(rank) || hi != float64(n+1-rank)) {
			t.Errorf("of %d values: [%v, %v], %v; want ranks %d from either end", n, lo, hi, ok, rank)
		}
	}
}

func TestCover(t *testing.T) {
	levels := []int{4, 3, 3, 3, 2, 2, 2, 4, 2}
	rows := cover(levels)
	for i := range levels {
		for j := i + 1; j < len(levels); j++ {
			seen := map[[2]int]bool{}
			for _, row := range rows {
				seen[[2]int{row[i], row[j]}] = true
			}
			if len(seen) != levels[i]*levels[j] {
				t.Errorf("factors %d and %d: %d pairs of %d", i, j, len(seen), levels[i]*levels[j])
			}
		}
	}
	if len(rows) > 2*4*4 {
		t.Errorf("%d rows", len(rows))
	}
	if a, b := fmt.Sprint(rows), fmt.Sprint(cover(levels)); a != b {
		t.Errorf("two calls differ: %s and %s", a, b)
	}
}

// The ending of its name says what a trace is written as.
func TestWriteTrace(t *testing.T) {
	tl := &timeline.Timeline{Devices: 2, Events: []timeline.Event{{End: 1}, {At: place.Stage(1), Micro: 3, Start: 1, End: 2}}}
	dir := t.TempDir()
	for name, want := range map[string]string{
		"a.json": `"traceEvents":[`, "a": `"traceEvents":[`, "a.svg": "K = 2, M = 4</text>", "a.SVG": "<svg", "a.txt": "0 |F0",
	} {
		name = filepath.Join(dir, name)
		if err := WriteTrace(name, tl); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, no %s in\n%s", name, err, want, text)
		}
	}
}

func TestTableFormats(t *testing.T) {
	table := &Table{
		ID: "sample", Title: "A sample",
		Caption: []string{"What it shows.", "How it was had."},
		Columns: []Column{{"what", true}, {"K", false}, {"value", false}},
		Notes:   []string{"A note.", "Another."},
	}
	table.Add("a|b, \"c\"", "1", "1.07")
	table.Add("some_longer name", "128", "[0.99, 1.01]")
	for _, format := range Formats {
		var b strings.Builder
		if err := table.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		golden(t, "table."+format, b.String())
	}
	if err := table.Write(io.Discard, "pdf"); err == nil || !strings.Contains(err.Error(), "want text") {
		t.Errorf("format pdf: %v", err)
	}
}

// What a spec or a machine calls itself is no HTML in Markdown; other signs stay.
func TestMarkdownHasNoHTML(t *testing.T) {
	table := &Table{ID: "sample", Title: "<b>title</b>", Caption: []string{"<script>"}, Columns: []Column{{"<i>", true}}, Notes: []string{"p < 0.05 <!-- -->"}}
	table.Add("<img src=x>|1 < 2")
	var b strings.Builder
	if err := table.Write(&b, "markdown"); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); markdownTag.MatchString(text) || !strings.Contains(text, "p < 0.05 &lt;!-- -->") || !strings.Contains(text, `&lt;img src=x>\|1 < 2`) {
		t.Errorf("%s", text)
	}
}

func TestSpecsLoad(t *testing.T) {
	for _, id := range IDs() {
		e, err := Load(id)
		if err != nil {
			t.Fatal(err)
		}
		if e.ID() != id || e.Title() == "" {
			t.Errorf("%s: id %q, title %q", id, e.ID(), e.Title())
		}
		for _, p := range Profiles {
			if e.Expected(p) <= 0 {
				t.Errorf("%s: no duration for %s", id, p)
			}
		}
		if e.Key("quick") == e.Key("full") {
			t.Errorf("%s: one key for two profiles", id)
		}
	}
}

func TestSpecErrorsHavePositions(t *testing.T) {
	spec := func(file, old, replacement string) string {
		t.Helper()
		text, err := specFiles.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(text), old) == 0 {
			t.Fatalf("%s has no %q", file, old)
		}
		return strings.Replace(string(text), old, replacement, 1)
	}
	lineWith := func(text, part string) int {
		before, _, ok := strings.Cut(text, part)
		if !ok {
			t.Fatalf("no %q", part)
		}
		return 1 + strings.Count(before, "\n")
	}
	for _, c := range []struct {
		file, old, replacement string
		line                   string // text of the line that is to be named
		want                   string
	}{
		{"table2.yaml", "batch: 32", "bach: 32", "bach: 32", "unknown field bach"},
		{"table2.yaml", "batch: 32", "batch: many", "batch: many", "many"},
		{"table2.yaml", "batch: 32", "batch: 33", "batch: 33", "not of one size"},
		{"table2.yaml", "schedule: gpipe", "schedule: zigzag", "schedule: zigzag", "want gpipe, naive or 1f1b"},
		{"table2.yaml", "  - {k: 4, m: 4, value: 3.2}\n", "", "paper:", "no value for K = 4, M = 4"},
		{"table2.yaml", "rounds: 2", "rounds: 0", "rounds: 0", "want a whole number from 1 to 1000"},
		{"table2.yaml", "expected: 10s", "expected: soon", "expected: soon", "want a duration"},
		{"table2.yaml", "  full:", "  fuller:", "  fuller:", "want smoke, quick, full"},
		{"table2.yaml", "base: {k: 2, m: 1}", "base: {k: 4, m: 1}", "base: {k: 4", "value in the paper is 1"},
		{"table2.yaml", "seed: 1", "seed: 1\n---\nseed: 2", "", "8:1: a second document: want one"},
		{"table2.yaml", "seed: 1", "seed: [1", "", "did not find"},
	} {
		text := spec(c.file, c.old, c.replacement)
		e := &table2{}
		err := decodeSpec(c.file, []byte(text), &e.spec, e.check)
		if err == nil {
			t.Errorf("%s: no error", c.replacement)
			continue
		}
		position := c.file
		if c.line != "" {
			position = fmt.Sprintf("%s:%d:", c.file, lineWith(text, c.line))
		}
		if !strings.HasPrefix(err.Error(), position) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v\nwant %s... %s", c.replacement, err, position, c.want)
		}
	}
}

func TestRecords(t *testing.T) {
	name := filepath.Join(t.TempDir(), "deep", "records.jsonl")
	k := Key{Experiment: "e", Profile: "smoke", Spec: "s", Machine: "m"}
	other := k
	other.Spec = "another"
	type sample struct{ X []float64 }
	add := func(k Key, names ...string) {
		t.Helper()
		l, err := OpenLog(name, k, false)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i, n := range names {
			if err := l.Add(n, 7, sample{[]float64{float64(i), 1.0 / 3}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	add(k, "a", "b")
	first, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	add(other, "a")
	add(k, "c")

	l, err := OpenLog(name, k, false)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	var s sample
	if l.Reused != 3 || !l.Has("a") || !l.Has("c") || l.Has("d") || l.Damaged != "" {
		t.Errorf("%d samples, damaged %q", l.Reused, l.Damaged)
	}
	if err := l.Get("b", &s); err != nil || len(s.X) != 2 || s.X[0] != 1 || s.X[1] != 1.0/3 {
		t.Errorf("sample b is %v, %v", s, err)
	}
	if err := l.Get("d", &s); err == nil || !strings.Contains(err.Error(), "no sample d") {
		t.Errorf("sample d: %v", err)
	}
	if p := l.Session; p.Time == "" || p.Go == "" || p.Machine != ThisMachine() {
		t.Errorf("provenance %+v", p)
	}
	all, err := os.ReadFile(name)
	if err != nil || !strings.HasPrefix(string(all), string(first)) {
		t.Errorf("the file was not only added to: %v", err)
	}
	fresh, err := OpenLog(name, k, true)
	if err != nil || fresh.Has("a") {
		t.Errorf("fresh: %v, has a", err)
	}
	if _, err := OpenLog(name, k, false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	fresh.Close()

	// Whichever key was written last is the one that LoadLog takes.
	if l, err := LoadLog(name, "e"); err != nil || l.Key != k || !l.Has("a") || !l.Has("c") {
		t.Errorf("LoadLog: %v", err)
	}
	if _, err := LoadLog(name, "f"); err == nil {
		t.Error("LoadLog of an experiment that is not there: no error")
	}

	// One changed digit is passed over and told, a last line that was torn off is
	// set aside and told once.
	damaged := strings.Replace(string(all), `{"X":[1,`, `{"X":[2,`, 1) + `{"session":"x","exper`
	if err := os.WriteFile(name, []byte(damaged), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err = OpenLog(name, k, false)
	if err != nil {
		t.Fatal(err)
	}
	if l.Has("b") || !l.Has("a") || !strings.HasSuffix(l.Damaged, "records.jsonl:3") || !strings.Contains(l.Torn, fmt.Sprintf("records.jsonl:%d, set aside", 1+strings.Count(string(all), "\n"))) {
		t.Errorf("has b: %v; damaged %q; torn %q", l.Has("b"), l.Damaged, l.Torn)
	}
	if aside, err := os.ReadFile(name + ".torn"); err != nil || string(aside) != `{"session":"x","exper`+"\n" {
		t.Errorf("set aside: %q, %v", aside, err)
	}
	if err := l.Add("d", 0, sample{}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l.Close()
	// What is behind the last newline and is no beginning of a record is damage, set
	// aside as well.
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, append(whole, "rubbish"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err = OpenLog(name, k, false); err != nil || l.Torn != "" || !strings.Contains(l.Damaged, fmt.Sprintf("records.jsonl:%d, set aside in", 1+strings.Count(string(whole), "\n"))) {
		t.Errorf("rubbish behind the last newline: %v, torn %q, damaged %q", err, l.Torn, l.Damaged)
	}
	l.Close()
	if l, err = OpenLog(name, k, false); err != nil || !l.Has("d") || l.Torn != "" || l.Reused != 3 || strings.Contains(l.Damaged, ", ") {
		t.Errorf("behind a torn line: %v, no sample d, or %d samples; torn %q, damaged %q", err, l.Reused, l.Torn, l.Damaged)
	}
	l.Close()
}

// evenLog has records of Table 2 as ideal devices would leave them: even stages
// that take 1, 1 and 2 units, in proportion to the work of a stage and
// micro-batch.
func evenLog(t *testing.T, e *table2) *Log {
	t.Helper()
	log := NewLog(e.Key("smoke"))
	profile := e.spec.Profiles["smoke"]
	for _, run := range e.runs(2) {
		unit := int64(1<<20) / int64(run.K*run.M)
		s := &timedSample{Setup: make([]int64, run.K), Update: make([]int64, run.K)}
		for range run.K {
			var f, b []int64
			for range run.M {
				f, b = append(f, unit), append(b, 2*unit)
			}
			s.F, s.R, s.B = append(s.F, f), append(s.R, f), append(s.B, b)
			s.Partition, s.Peak = append(s.Partition, 50/run.K), append(s.Peak, 1<<20)
		}
		lists, err := schedule.Build(e.schedule, run.K, run.M, e.checkpoint, false)
		if err != nil {
			t.Fatal(err)
		}
		tl, err := s.times(lists).Replay()
		if err != nil {
			t.Fatal(err)
		}
		s.Seconds = tl.Span()
		for round := range profile.Rounds {
			for step := range profile.Steps[run.M] {
				if err := log.Add(stepName(run.name(), round, step), 1, s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	fillBeside(t, log, e.modelled)
	log.Session = Provenance{Time: "then", Machine: Machine{CPU: "a machine", Cores: 2, GOMAXPROCS: 2}}
	return log
}

// fillBeside has for every modelled cell what the paper has.
func fillBeside(t *testing.T, log *Log, m modelledBeside) {
	t.Helper()
	n := m.Networks[0]
	fillScale(t, log, m.paperScale, func(c cell, _ cutSpec, _, _ string) float64 { return n.paper(c).Value.Value / float64(c.K) })
}

func TestCrowded(t *testing.T) {
	if got := parseCPULine("cpu  100 20 3 4000 500 60 7 800 90 10"); got != 9.9 {
		t.Errorf("processor time %v, want 9.9", got)
	}
	for _, line := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu a b c d e f g h"} {
		if got := parseCPULine(line); got != -1 {
			t.Errorf("%q: %v, want -1", line, got)
		}
	}
	for _, c := range []struct {
		others        float64
		needed, cores int
		want          bool
	}{{-1, 2, 2, false}, {0.05, 2, 2, false}, {0.2, 2, 2, true}, {1, 1, 2, false}, {1.2, 1, 2, true}, {30, 2, 64, false}} {
		if got := crowded(c.others, c.needed, c.cores); got != c.want {
			t.Errorf("crowded(%v, %d, %d) = %v", c.others, c.needed, c.cores, got)
		}
	}
}

func TestTable2Report(t *testing.T) {
	e := loaded[*table2](t, loadTable2)
	log := evenLog(t, e)
	r, err := e.Report(log, log)
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, c := range r.Tables[0].Columns {
		column[c.Name] = i
	}
	for _, row := range r.Tables[0].Rows {
		if row[column["modelled/paper"]] != "1.00" {
			t.Errorf("K = %s, M = %s: modelled %s, paper %s", row[0], row[1], row[column["modelled"]], row[column["paper"]])
		}
		// On even stages theory, closed form and measurement are one.
		even := row[column["theory, even"]]
		for _, name := range []string{"closed form", "measured", "reference"} {
			if row[column[name]] != even {
				t.Errorf("K = %s, M = %s: %s %s, want %s", row[0], row[1], name, row[column[name]], even)
			}
		}
	}
	var b strings.Builder
	for _, table := range r.Tables {
		if err := table.Write(&b, "text"); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
	}
	for _, f := range r.Files {
		if strings.HasSuffix(f.Name, ".txt") {
			b.WriteString(f.Text + "\n")
		}
	}
	golden(t, "table2.text", b.String())

	// A sample that is missing is not made up.
	short := NewLog(log.Key)
	if _, err := e.Report(short, nil); err == nil || !strings.Contains(err.Error(), "no sample") {
		t.Errorf("without records: %v", err)
	}
}

// The figures that the paper's sources leave to derive, and its M = 4 row that
// no fixed mini-batch can reach.
func TestTable2Theory(t *testing.T) {
	e := loaded[*table2](t, loadTable2)
	spread, err := e.spreadTable()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{
		"1.8 3.4 6.3", "1.68 3.10 5.38", "", "1.70 3.20 5.66", "1.92 3.58 6.19", "1.71 3.27 6.01",
	} {
		if got := strings.Join(spread.Rows[i][1:], " "); want != "" && got != want {
			t.Errorf("%s: %s, want %s", spread.Rows[i][0], got, want)
		}
	}
	if v, err := e.evenTheory(cell{4, 1}); err != nil || fmt.Sprintf("%.3f", v) != "1.077" {
		t.Errorf("K = 4, M = 1 gains %v, %v; want 1.077", v, err)
	}
	notes := e.boundNotes()
	if len(notes) != 1 || !strings.Contains(notes[0], "M = 4 row") || !strings.Contains(notes[0], "1.60 / 2.29 / 2.91") {
		t.Errorf("notes on the bound: %q", notes)
	}
}

func TestConsistencyReport(t *testing.T) {
	loaded, err := loadConsistency()
	if err != nil {
		t.Fatal(err)
	}
	e := loaded.(*consistency)
	fill := func(change func(group, run int, s *consistencySample)) *Log {
		log := NewLog(e.Key("smoke"))
		for i := range e.spec.Groups {
			g := &e.spec.Groups[i]
			for j, run := range g.runs() {
				s := consistencySample{
					Run: run, Steps: 2, Losses: []float64{3, 2}, Initial: strings.Repeat("0", 64), SHA256: strings.Repeat("ab", 32),
					Partition: []int{4}, Peak: []int64{1 << 20}, HighWater: []int64{1 << 20},
				}
				if g.EachM {
					s.SHA256 = fmt.Sprintf("%02x", run.M) + s.SHA256[2:]
				}
				change(i, j, &s)
				if err := log.Add(sampleName(g.Name, j), 0, s); err != nil {
					t.Fatal(err)
				}
			}
		}
		return log
	}
	for _, c := range []struct {
		name   string
		change func(group, run int, s *consistencySample)
		want   string // of the error; "": none
		note   string
	}{
		{"all equal", func(int, int, *consistencySample) {}, "", "Verdict: all "},
		{"one weight", func(g, r int, s *consistencySample) {
			if g == 0 && r == 3 {
				s.SHA256 = "ff" + s.SHA256[2:]
			}
		}, "1 of", "DIFFER"},
		{"one loss", func(g, r int, s *consistencySample) {
			if g == 1 && r == 2 {
				s.Losses = []float64{3, 2.0000001}
			}
		}, "1 of", "DIFFER"},
		{"nothing trained", func(_, _ int, s *consistencySample) { s.SHA256 = s.Initial }, "began with", "nothing was trained"},
		{"one weight, with batch norm", func(g, r int, s *consistencySample) {
			if e.spec.Groups[g].EachM && r == 9 {
				s.Losses = []float64{3, 2.5}
			}
		}, "2 of", "DIFFER"},
		{"micro-batches are not normalised", func(g, _ int, s *consistencySample) {
			if e.spec.Groups[g].EachM {
				s.SHA256 = strings.Repeat("ab", 32)
			}
		}, "the same weights at two values of M", "not normalised each by itself"},
		{"a byte more", func(g, r int, s *consistencySample) {
			if r == 1 {
				s.HighWater = []int64{1<<20 + 4}
			}
		}, "other memory", "DIFFER"},
	} {
		r, err := e.Report(fill(c.change), nil)
		if err != nil {
			t.Fatal(err)
		}
		if (r.Verdict == nil) != (c.want == "") || r.Verdict != nil && !strings.Contains(r.Verdict.Error(), c.want) {
			t.Errorf("%s: verdict %v, want %q", c.name, r.Verdict, c.want)
		}
		if notes := strings.Join(r.Tables[0].Notes, "\n"); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %s", c.name, notes)
		}
	}
}

// A run that is stopped goes on where it was, and one that is complete is used
// again.
func TestReproduceGoesOn(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	dir := t.TempDir()
	r := Reproducing{Profile: "smoke", Only: []string{"learning"}, Out: dir, Reference: filepath.Join(dir, "none")}
	once := func(ctx context.Context) (*said, string, error) {
		p := &said{}
		var b strings.Builder
		err := r.Run(ctx, p, func(_ Experiment, rep *Report) error { return rep.Tables[0].Write(&b, "text") })
		return p, b.String(), err
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	records := filepath.Join(dir, "records", "learning.jsonl")
	p := &said{advanced: func(string) {
		if text, err := os.ReadFile(records); err == nil && strings.Contains(string(text), `"sample":"synthetic"`) {
			stop() // in the second task
		}
	}}
	if err := r.Run(ctx, p, nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("a stopped run: %v", err)
	}
	second, table, err := once(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(second.begun) != 1 || !strings.Contains(second.begun[0], "text") {
		t.Errorf("the second run began %q, want the text alone", second.begun)
	}
	third, again, err := once(context.Background())
	if err != nil || len(third.begun) != 0 || !strings.Contains(strings.Join(third.lines, "\n"), "used again") || table != again {
		t.Errorf("the third run began %q, said %q, %v", third.begun, third.lines, err)
	}
	// Beside it, as a reference.
	r.Reference, r.Out = dir, filepath.Join(dir, "other")
	r.Only = []string{"learning"}
	_, beside, err := once(context.Background())
	if err != nil || !strings.Contains(beside, "reference loss") {
		t.Errorf("with a reference: %v\n%s", err, beside)
	}
	for _, name := range []string{"learning.md", "learning.csv", "learning-curve.csv"} {
		if _, err := os.Stat(filepath.Join(dir, "other", "tables", name)); err != nil {
			t.Error(err)
		}
	}
}

// said is a Progress that keeps what it is told.
type said struct {
	begun, lines []string
	advanced     func(string)
}

func (s *said) Begin(what string, _ int) { s.begun = append(s.begun, what) }
func (s *said) End()                     {}
func (s *said) Say(line string)          { s.lines = append(s.lines, line) }
func (s *said) Advance(detail string) {
	if s.advanced != nil {
		s.advanced(detail)
	}
}

// Measuring a whole grid leaves what a report needs.
func TestTable2Measures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	e := loaded[*table2](t, loadTable2)
	log := NewLog(e.Key("smoke"))
	if err := e.Measure(context.Background(), log, Silent{}); err != nil {
		t.Fatal(err)
	}
	r, err := e.Report(log, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Tables[0].Rows) != 9 || len(r.Files) != 6 { // plot twice, timeline three times, benchmark format
		t.Errorf("%d rows, %d files", len(r.Tables[0].Rows), len(r.Files))
	}
	n := len(log.names)
	if err := e.Measure(context.Background(), log, Silent{}); err != nil || len(log.names) != n {
		t.Errorf("measured again: %d samples more, %v", len(log.names)-n, err)
	}
}

// Costs by time are one positive number a layer, for any model and threads.
func TestTimeCosts(t *testing.T) {
	d := Describing{
		Model: Model{Name: "transformer-lm", Layers: 2, Dim: 16, FF: 32, Heads: 2, Vocab: 20, Seq: 8, Tied: "softmax", Fine: true},
		Setup: Setup{Partitions: 3, MicroBatches: 1, Cost: Time, Threads: 2, Device: gpipe.Host},
		Batch: 2,
	}
	r, err := d.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Partition.Sizes) != 3 || len(r.Layers) != 6 {
		t.Errorf("partition %v of %d layers", r.Partition.Sizes, len(r.Layers))
	}
	for _, c := range r.Partition.Costs {
		if !(c > 0) {
			t.Errorf("costs %v", r.Partition.Costs)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, err := d.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDocumentationIsSorted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"doc/b.html", "doc/a.html", "doc/x.txt", "src/z/doc.go", "src/a/doc.go", "src/a/other.go", "src/a/testdata/doc.go"} {
		name = filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	files, err := documentation(os.DirFS(dir))
	if got := strings.Join(files, " "); err != nil || got != "doc/a.html doc/b.html src/a/doc.go src/z/doc.go" {
		t.Errorf("%s, %v", got, err)
	}
}

// No number in results/reference is typed: its tables are what comes out of its
// records. Make it anew with
//
//	gpipebench reproduce --out results/reference
//
// and, after that or after a change of a report, what follows from the records
// (with TestReferenceSums) by
//
//	make reference
func TestReferenceTables(t *testing.T) {
	rendersReference(t)
	dir := filepath.Join("..", "results", "reference")
	made := map[string]bool{}
	for _, id := range IDs() {
		log, err := LoadLog(filepath.Join(dir, "records", id+".jsonl"), id)
		if errors.Is(err, os.ErrNotExist) {
			t.Logf("%s: no reference yet", id)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if log.Damaged != "" {
			t.Errorf("damaged records: %s", log.Damaged)
		}
		e, err := Load(id)
		if err != nil {
			t.Fatal(err)
		}
		r, err := reportOf(e, log, nil)
		if err != nil {
			t.Errorf("%s: %v: the spec has changed since; make the reference anew", id, err)
			continue
		}
		for _, f := range r.files() {
			made[f.Name] = true
			name := filepath.Join(dir, "tables", f.Name)
			text, err := os.ReadFile(name)
			switch same := err == nil && sameFile(f.Name, string(text), f.Text); {
			case same:
			case *update:
				if err := os.WriteFile(name, []byte(f.Text), 0o644); err != nil {
					t.Fatal(err)
				}
			case err != nil:
				t.Error(err)
			default:
				t.Errorf("%s is not what its records make", f.Name)
			}
		}
	}
	if len(made) == 0 {
		t.Skip("no reference yet")
	}
	there, err := os.ReadDir(filepath.Join(dir, "tables"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range there {
		switch {
		case made[f.Name()]:
		case *update:
			if err := os.Remove(filepath.Join(dir, "tables", f.Name())); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s is in no report", f.Name())
		}
	}
}

// Records that lack what a report counts on are an error in one line.
func TestStrangeRecordsAreAnError(t *testing.T) {
	e, err := Load("table1")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := reportOf(surprised{e}, NewLog(e.Key("smoke")), nil); err == nil || !strings.Contains(err.Error(), "table1: its records are not what this version writes") {
		t.Errorf("%v, %v", r, err)
	}
}

// surprised is an experiment that divides by what its records lack.
type surprised struct{ Experiment }

func (surprised) Report(log, _ *Log) (*Report, error) {
	return &Report{Tables: make([]*Table, 1/len(log.names))}, nil
}

// rendersReference skips a test where short ones run: under the race detector,
// which takes minutes over the whole reference.
func rendersReference(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("renders the whole reference")
	}
}

// loaded is an experiment of the program's own spec.
func loaded[T Experiment](t *testing.T, load func(...SpecFile) (Experiment, error)) T {
	t.Helper()
	e, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return e.(T)
}
