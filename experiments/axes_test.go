package experiments

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
	"gpipebench/lab/timed"
	"gpipebench/lab/timed/timedtest"
)

// asked is an experiment whose command has --k or --m, with numbers there that its spec lacks.
type asked struct {
	k, m []int
	// edits are of the spec's text: figure3's K are in its scenarios.
	edits  []string
	row    string // what a row is named by that the edits make
	partly bool   // the reference is shown where it has a cell
	plain  bool   // it draws no figure
}

var axes = map[string]asked{
	"ablation":             {k: []int{2, 4, 8, 16}, m: []int{16}},
	"breakdown":            {k: []int{2, 4, 8}, m: []int{32}},
	"bubbles-emulated":     {k: []int{2}},
	"calibrated":           {k: []int{2, 4, 8, 16}, m: []int{1, 4, 8, 32}, plain: true},
	"densify-weak":         {m: []int{2}},
	"figure3":              {m: []int{16}, edits: []string{"      - {name: Pipeline-8,", "      - {name: Pipeline-16, k: 16}\n      - {name: Pipeline-8,"}, row: "Pipeline-16"},
	"processes-throughput": {m: []int{2}},
	"replicas-scaling":     {m: []int{4}},
	"table2":               {k: []int{2, 4, 8, 16}, m: []int{1, 4, 8, 32}, partly: true},
	"table2-amoebanet":     {k: []int{2, 4, 8, 16}, m: []int{1, 4, 8, 32}, partly: true},
	"table2-modelled":      {k: []int{8, 2, 16, 4}, m: []int{32, 1, 8, 4}}, // in any order
	"table3":               {k: []int{2, 4, 8, 16}, m: []int{8, 32}},
	"unstated":             {m: []int{4, 8, 16, 32, 64}, plain: true},
	"validation":           {k: []int{2, 3, 4, 8}},
}

// withoutAxes are the timed experiments whose specs have neither K nor M at the top, and what they have instead.
var withoutAxes = map[string]string{
	"accumulation-measured": "numbers of processes that add up one table",
	"densify-timeline":      "one step of ranks, drawn",
	"evaluation-measured":   "numbers of replicas that evaluate",
	"hoisting":              "layers on one device",
	"input-throughput":      "one host that makes mini-batches",
	"section6-emulated":     "ways, with K, T and M of their own",
	"spatial-emulated":      "numbers of parts of an image",
	"summation-measured":    "networks that gradients are sent over",
	"update-measured":       "numbers of replicas that update",
}

// by are the numbers by the axes' names.
func (a asked) by() map[string][]int {
	by := map[string][]int{"k": a.k, "m": a.m}
	maps.DeleteFunc(by, func(_ string, numbers []int) bool { return numbers == nil })
	return by
}

// Every spec with k or m at its top takes other numbers there, and nothing else in it changes. Where
// samples' names have them, the conditions are the same. What comes out is reported.
func TestAxes(t *testing.T) {
	var found []string
	for _, d := range List() {
		own := testkit.Must(d.Load())(t)
		if !d.HasAxis("k") && !d.HasAxis("m") {
			if _, isTimed := own.(timed.Experiment); isTimed != (withoutAxes[d.ID] != "") {
				t.Errorf("%s has no axis: it is timed: %v, known: %q", d.ID, isTimed, withoutAxes[d.ID])
			}
			continue
		}
		found = append(found, d.ID)
		ask := axes[d.ID]
		spec := d.SpecFile()
		spec.Text = []byte(strings.NewReplacer(ask.edits...).Replace(d.Spec()))
		for axis, numbers := range ask.by() {
			spec = testkit.Must(spec.With(axis, numbers))(t)
		}
		edited := testkit.Must(d.Load(spec))(t, "%v", ask)
		testkit.Equal(t, strings.Count(string(spec.Text), "#"), strings.Count(d.Spec(), "#"), "%s", d.ID)
		grid := slices.Contains([]string{"calibrated", "table2", "table2-amoebanet", "table2-modelled", "table3"}, d.ID)
		if own.Key("quick") == edited.Key("quick") || (own.Conditions("quick") == edited.Conditions("quick")) != grid {
			t.Errorf("%s: other K or M have the same key, or conditions that are not those of a grid", d.ID)
		}
		t.Run(d.ID, func(t *testing.T) { ask.check(t, d, ask.madeUp(t, edited)) })
		again := lab.SpecFile{Name: "again.yaml", Experiment: d.ID, Text: spec.Text}
		if ask.edits != nil {
			continue
		}
		for axis := range ask.by() {
			again = testkit.Must(again.With(axis, topNumbers(t, d, axis)))(t)
		}
		testkit.Equal(t, testkit.Must(d.Load(again))(t).Key("quick"), own.Key("quick"), "%s: the key of its own K and M", d.ID)
	}
	slices.Sort(found)
	testkit.EqualAll(t, slices.Sorted(maps.Keys(axes)), found, "experiments with k or m: %v, tried", found)
}

var (
	noSample = regexp.MustCompile(`no sample (.+)$`)
	digits   = regexp.MustCompile(`[0-9]+`)
	kInName  = regexp.MustCompile(`\bK=[0-9]+`)
	mInName  = regexp.MustCompile(`\bM( ?= ?)[0-9]+`)
)

// madeUp is an experiment's report, beside the reference, of samples that are made up: rounds of even stages, and in
// place of any other the reference's sample whose name has other numbers.
func (a asked) madeUp(t *testing.T, e lab.Experiment) *lab.Report {
	t.Helper()
	reference := references(e.ID())
	log := records.New(e.Key(reference.Key.Profile))
	if x, is := e.(timed.Experiment); is {
		repeated := testkit.Must(x.Repeated(log.Key.Profile))(t)
		if rounds, is := repeated.(*timed.Rounds); is {
			timedtest.FillRounds(t, log, rounds, 0, timedtest.Even)
		}
	}
	put := func(name, as string) {
		if !log.Has(name) {
			log.Put(&records.Record{Sample: name, Data: reference.Samples[as].Data})
		}
	}
	for _, as := range reference.Names {
		put(as, as)
		for _, k := range append([]int{0}, a.k...) {
			name := as
			if k > 0 {
				name = kInName.ReplaceAllString(name, fmt.Sprintf("K=%d", k))
			}
			for _, m := range a.m {
				put(mInName.ReplaceAllString(name, fmt.Sprintf("M${1}%d", m)), as)
			}
			put(name, as)
		}
	}
	for { // what has numbers elsewhere in its name
		r, err := e.Report(log, reference)
		missing := noSample.FindStringSubmatch(fmt.Sprint(err))
		if missing == nil {
			testkit.NoError(t, err)
			return r
		}
		alike := regexp.MustCompile("^" + digits.ReplaceAllString(regexp.QuoteMeta(missing[1]), "[0-9]+") + "$")
		i := slices.IndexFunc(reference.Names, alike.MatchString)
		if i < 0 {
			t.Fatal(err)
		}
		put(missing[1], reference.Names[i])
	}
}

// ofPaper are columns that have nothing where the paper has nothing.
var ofPaper = regexp.MustCompile(`^(paper|torchgpipe|error)|/paper`)

// check checks a report: it says every number that was asked for, and not the spec's in place of one; its tables have
// every figure of the rows that the paper lacks, but for the paper's and a reference's; it is drawn.
func (a asked) check(t *testing.T, d lab.Definition, r *lab.Report) {
	testkit.Equal(t, r.Verdict, nil)
	own := map[string][]int{}
	for axis := range a.by() {
		own[axis] = topNumbers(t, d, axis)
	}
	var said []string // captions, columns and rows
	for _, table := range r.Tables {
		said = append(said, table.Caption...)
		for _, c := range table.Columns {
			said = append(said, c.Name)
			if k, is := strings.CutPrefix(c.Name, "over K = "); is && k != strconv.Itoa(slices.Min(a.k)) {
				t.Errorf("%s has %s, not the smallest", table.ID, c.Name)
			}
		}
		for _, row := range table.Printed() {
			said = append(said, row...)
			isMore := a.row != "" && slices.Contains(row, a.row)
			for axis, numbers := range a.by() {
				if at := table.Column(axis); at >= 0 {
					said = append(said, fmt.Sprintf("%s = %s", strings.ToUpper(axis), row[at]))
					isMore = isMore || len(numbers) > 1 && !slices.ContainsFunc(own[axis], func(n int) bool { return strconv.Itoa(n) == row[at] })
				}
			}
			for i, c := range table.Columns {
				absent, beside := row[i] == lab.Absent.Text, a.partly && strings.HasPrefix(c.Name, "reference")
				switch {
				case strings.HasPrefix(c.Name, "95%"): // a base has none
				case isMore && absent != (beside || ofPaper.MatchString(c.Name)), !isMore && absent && (beside || c.Name == "paper"):
					t.Errorf("%s, %q: %s is %s", table.ID, row[:3], c.Name, row[i])
				}
			}
		}
	}
	for axis, numbers := range a.by() {
		says := func(n int) bool {
			one := regexp.MustCompile(fmt.Sprintf(`\b%s (=|of) ([0-9]+, )*%d\b`, strings.ToUpper(axis), n))
			return slices.ContainsFunc(said, one.MatchString)
		}
		for _, n := range numbers {
			if !says(n) {
				t.Errorf("nothing says %s = %d", axis, n)
			}
		}
		if len(numbers) == 1 && says(own[axis][0]) {
			t.Errorf("it says the spec's %s = %d", axis, own[axis][0])
		}
	}
	if a.row != "" && !slices.Contains(said, a.row) {
		t.Errorf("no row %s", a.row)
	}
	if a.partly && !slices.ContainsFunc(said, func(s string) bool { return strings.HasPrefix(s, "reference") }) {
		t.Error("the reference is not shown")
	}
	for _, f := range r.Rendered() {
		if strings.Contains(f.Text, "NaN") || strings.Contains(f.Text, "Inf") {
			t.Errorf("%s has a figure that is none", f.Name)
		}
	}
	drawn := slices.ContainsFunc(r.Files, func(f lab.File) bool { return f.Name == d.ID+".svg" })
	if drawn == a.plain {
		t.Errorf("%d files: drawn %v", len(r.Files), drawn)
	}
}

// topNumbers returns the numbers of a spec's field.
func topNumbers(t *testing.T, d lab.Definition, axis string) []int {
	t.Helper()
	var top map[string]yaml.Node
	testkit.NoError(t, yaml.Unmarshal([]byte(d.Spec()), &top))
	of, list := top[axis], []int{0}
	into := any(&list[0])
	if of.Kind == yaml.SequenceNode {
		into = &list
	}
	testkit.NoError(t, of.Decode(into))
	return list
}

// What a spec has no field for, or one number, is refused as a wrong usage, and so are cells that cannot be.
func TestAxesRefused(t *testing.T) {
	for want, r := range map[string]Reproducing{
		"k in the spec of table1: want an experiment whose spec has such a field": {Only: []string{"table1"}, K: []int{2}},
		"m in the spec of breakdown: want one number":                             {Only: []string{"breakdown"}, M: []int{2, 4}},
		"base: no cell has K = 2, M = 1":                                          {Only: []string{"table2"}, K: []int{4}},
		"64 micro-batches of 32 examples are not of one size":                     {Only: []string{"table2"}, M: []int{1, 64}},
		"k.1: this entry is there already":                                        {Only: []string{"table3"}, K: []int{2, 2}},
	} {
		testkit.Refused(r.Load())(t, want)
	}
}

// A table with fewer cells than one that was measured is made of that one's samples, and a cell more
// of its modelled samples alone: what is timed is compared within one run.
func TestCellsAreUsedAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("models Table 2")
	}
	dir, reference := t.TempDir(), t.TempDir()
	e := testkit.Must(Load("table2"))(t)
	log := testkit.Must(records.Open(records.File(reference, "table2"), e.Key("smoke"), false))(t)
	repeated := testkit.Must(e.(timed.Experiment).Repeated("smoke"))(t)
	timedtest.FillRounds(t, log, repeated.(*timed.Rounds), 0, timedtest.Even)
	testkit.NoError(t, e.Measure(t.Context(), log, progress.Silent{}))
	whole := testkit.Must(e.Report(log, nil))(t)
	testkit.NoError(t, log.Close())
	r := Reproducing{Profile: "smoke", Only: []string{"table2"}, Out: dir, Reference: reference, K: []int{2, 8}}
	p := &said{}
	var part *lab.Report
	testkit.NoError(t, r.Run(t.Context(), p, func(_ lab.Experiment, made *lab.Report) error { part = made; return nil }))
	testkit.Has(t, fmt.Sprint(p.lines), "24 of 24 samples are from runs with other K or M")
	column := part.Tables[0].Column("measured")
	for _, row := range part.Tables[0].Printed() {
		same := slices.ContainsFunc(whole.Tables[0].Printed(), func(of []string) bool { return slices.Equal(of[:column+1], row[:column+1]) })
		if !same {
			t.Errorf("%q is not a row of the whole table", row)
		}
	}

	list := testkit.Must(Reproducing{Profile: "smoke", Only: []string{"table2"}, K: []int{2, 4, 8, 16}}.Load())(t).list
	log = records.New(list[0].Key("smoke"))
	testkit.NoError(t, r.earlier(list[0], log))
	testkit.Equal(t, len(log.Earlier), 1, "earlier logs")
	repeated = testkit.Must(list[0].Experiment.(timed.Experiment).Repeated("smoke"))(t)
	testkit.NoError(t, log.TakeTimed(slices.Concat(repeated.Samples()...)))
	testkit.Equal(t, log.Taken, 0, "timed samples of a run without K = 16 that are used again")
	r.Fresh = true
	log = records.New(list[0].Key("smoke"))
	testkit.NoError(t, r.earlier(list[0], log))
	testkit.Equal(t, len(log.Earlier), 0, "fresh: earlier logs")
	testkit.Must(records.Load(filepath.Join(dir, "records", "table2.jsonl"), "table2"))(t)
}
