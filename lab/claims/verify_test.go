package claims

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/experiments"
	"gpipebench/internal/progress"
	"gpipebench/internal/testkit"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// results is a copy of a directory of results that a test may change.
type results struct {
	t   *testing.T
	dir string
	was fs.FS // what it is a copy of
}

func copyOf(t *testing.T, dir string) results {
	t.Helper()
	r := results{t, t.TempDir(), os.DirFS(dir)}
	testkit.NoError(t, os.CopyFS(r.dir, r.was))
	return r
}

// definition is the entry of an experiment.
func definition(id string) lab.Definition {
	all := experiments.List()
	return all[slices.IndexFunc(all, func(d lab.Definition) bool { return d.ID == id })]
}

func (r results) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

// change edits a file.
func (r results) change(name string, edit func(string) string) {
	r.t.Helper()
	text := string(testkit.Must(os.ReadFile(r.path(name)))(r.t))
	changed := edit(text)
	if changed == text {
		r.t.Fatalf("%s is not changed", name)
	}
	r.write(name, changed)
}

func (r results) write(name, text string) {
	r.t.Helper()
	testkit.NoError(r.t, os.WriteFile(r.path(name), []byte(text), 0o600))
}

func (r results) remove(name string) {
	r.t.Helper()
	testkit.NoError(r.t, os.Remove(r.path(name)))
}

// restore makes a file what it was.
func (r results) restore(name string) {
	r.t.Helper()
	r.write(name, string(testkit.Must(fs.ReadFile(r.was, name))(r.t)))
}

// examined is an experiment of a directory, with nothing beside.
func examined(v Verifying, d lab.Definition) (*Examined, error) {
	return v.examine(d, v.log(d.ID), nil)
}

// examine examines some experiments of the copy.
func (r results) examine(ids ...string) (all []*Examined) {
	r.t.Helper()
	for _, id := range ids {
		all = append(all, testkit.Must(examined(Verifying{Results: r.dir}, definition(id)))(r.t))
	}
	return all
}

// err is what verify says, but for claims, in one line.
func (r results) err(all []*Examined) string {
	r.t.Helper()
	err := testkit.Must(Verifying{Results: r.dir}.compareTables(all))(r.t).Err(false)
	if err == nil {
		return ""
	}
	testkit.Fails(r.t, err)
	return err.Error()
}

// resealed is a records file after an edit of each record: the lines' sums
// match what is in them.
func resealed(t *testing.T, text string, edit func(n int, r *records.Record)) string {
	t.Helper()
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		r := testkit.Must(records.DecodeRecord([]byte(strings.TrimSpace(line))))(t)
		edit(n, r)
		n++
		b.Write(append(testkit.Must(r.Encode())(t), '\n'))
	}
	return b.String()
}

// Whatever is done by hand to records or tables of one experiment is found, and
// said in one line.
func TestVerifyFindsWhatWasChanged(t *testing.T) {
	made := t.TempDir()
	const id = "delayed-reduction"
	reproduce := experiments.Reproducing{Profile: "smoke", Only: []string{id}, Out: made}
	testkit.NoError(t, reproduce.Run(context.Background(), progress.Silent{}, func(lab.Experiment, *lab.Report) error { return nil }))
	recordsDir, table := "records/"+id+".jsonl", "tables/"+id+".csv"
	without := func(from, to int) func(string) string {
		return func(s string) string {
			return strings.Join(slices.Delete(strings.SplitAfter(s, "\n"), from, to), "")
		}
	}
	forge := func(s string) string { return strings.Replace(s, "reduced late", "reduced lat", 1) }
	reseal := func(edit func(n int, r *records.Record)) func(results) {
		return func(r results) {
			r.change(recordsDir, func(s string) string { return resealed(t, s, edit) })
		}
	}
	third := func(edit func(r *records.Record)) func(results) {
		return reseal(func(n int, r *records.Record) {
			if n == 2 {
				edit(r)
			}
		})
	}
	for _, c := range []struct {
		what string
		do   func(r results)
		want string // "": nothing is wrong
	}{
		{"nothing", func(results) {}, ""},
		{"a digit", func(r results) {
			r.change(recordsDir, func(s string) string { return strings.Replace(s, `"accuracy":0.`, `"accuracy":0.9`, 1) })
		}, recordsDir + ":2; remove these lines, and reproduce measures their samples again"},
		{"a sum", func(r results) {
			r.change(recordsDir, func(s string) string { return s[:len(s)-10] + "00000" + s[len(s)-5:] })
		}, "changed or damaged records"},
		{"a line less", func(r results) { r.change(recordsDir, without(2, 3)) }, "tables without usable records: "},
		{"no provenance", func(r results) { r.change(recordsDir, without(0, 1)) }, recordsDir + ":3, "},
		{"a torn line more", func(r results) { r.change(recordsDir, func(s string) string { return s + `{"session":"x` }) }, ""},
		{"no records", func(r results) { r.remove(recordsDir) }, recordsDir + ": not there"},
		{"empty records", func(r results) { r.write(recordsDir, "") }, "has no sample of " + id},
		{"a cell", func(r results) { r.change(table, forge) }, table + ": not what the records of " + id + " give"},
		{"two tables", func(r results) {
			r.change(table, forge)
			r.change(strings.TrimSuffix(table, ".csv")+".md", forge)
		}, "(and 1 more): not what the records"},
		{"a table less", func(r results) { r.remove(table) }, table + ": not there, though the records of " + id + " are"},
		{"a table more", func(r results) { r.write("tables/"+id+"-more.csv", "x") }, "-more.csv: in no report"},
		{"a directory for a table", func(r results) {
			r.remove(table)
			testkit.NoError(t, os.Mkdir(r.path(table), 0o755))
		}, "is a directory"},
		{"what a kill left", func(r results) { r.write("tables/.unfinished-0123456789abcdef", "x") }, ""},
		{"another spec", reseal(func(_ int, r *records.Record) { r.Spec = "0123456789abcdef" }), "tables without usable records: "},
		{"another spec in one record", third(func(r *records.Record) { r.Spec = "0123456789abcdef" }), "tables without usable records: "},
		{"a seed more", third(func(r *records.Record) { r.Seed = 9 }), "seed 9 is not of the design: want one of 1, 2"},
		{"another design, such as another margin", third(func(r *records.Record) { r.Design = "0123456789abcdef" }), `it was made under design "0123456789abcdef", which is now `},
		{"nothing but a directory", func(r results) {
			for _, name := range []string{"records", "tables"} {
				testkit.NoError(t, os.RemoveAll(r.path(name)))
			}
		}, "has no records of any experiment"},
		{"interrupted before the tables", func(r results) {
			r.change(recordsDir, without(4, 6))
			testkit.NoError(t, os.RemoveAll(r.path("tables")))
		}, ""},
	} {
		r := copyOf(t, made)
		c.do(r)
		if got := r.err(r.examine(experiments.IDs()...)); c.want == "" && got != "" || !strings.Contains(filepath.ToSlash(got), c.want) {
			t.Errorf("%s: %q", c.what, got)
		}
	}

	v := testkit.Must(Verifying{All: experiments.Papers, Results: made}.Run(context.Background()))(t)
	testkit.Equal(t, v.Err(false), nil)
	others := fmt.Sprintf("%d experiments have no usable records: table1 (not there), ", len(experiments.Papers[0].Experiments)-1)
	testkit.Fails(t, v.Err(true), "claims have no record", others)
	var text strings.Builder
	testkit.NoError(t, v.WriteText(&text, true))
	testkit.Has(t, text.String(), "claims: ")
	testkit.Refused((Verifying{All: experiments.Papers, Results: filepath.Join(made, "none")}).Run(context.Background()))(t, "none is not there: want a directory that reproduce has written")
}

// Tables that show a reference beside are right with that reference; without it
// verify says that it is not there.
func TestVerifyWithoutReference(t *testing.T) {
	testkit.CI(t)
	const id = "learning"
	reference, made := t.TempDir(), t.TempDir()
	for _, r := range []experiments.Reproducing{{Out: reference}, {Out: made, Reference: reference}} {
		r.Profile, r.Only = "smoke", []string{id}
		testkit.NoError(t, r.Run(t.Context(), progress.Silent{}, func(lab.Experiment, *lab.Report) error { return nil }))
	}
	hold := func(reference string) string {
		v := Verifying{Results: made, Reference: reference}
		x := testkit.Must(examined(v, definition(id)))(t)
		r := testkit.Must(v.compareTables([]*Examined{x}))(t)
		return strings.Join(r.Wrong, "; ")
	}
	testkit.Equal(t, hold(reference), "", "with the reference")
	none := filepath.Join(reference, "none")
	testkit.Has(t, hold(none), "/learning.", "cannot be read (--reference "+none+"): no such file or directory")
}

// Of the committed reference, every file of records and tables is deleted,
// emptied and forged, one at a time, and lines of records are removed: verify
// says so each time, by records and tables alone. Of every sample of an experiment
// a digit is changed that its tables show, and the line's sum made anew. Each
// experiment has a directory of its own: one of each kind, and in make deep all.
func TestVerifyFindsEveryForgery(t *testing.T) {
	testkit.CI(t)
	tried := 0
	for i, d := range experiments.List() {
		id := d.ID
		ofKind := slices.Contains([]string{"translation", "figure3", "replicas-modelled", "spatial-bits"}, id) // trained, timed, cells, same bits
		if testkit.IsDeep() && !testkit.InShard(i) || !testkit.IsDeep() && !ofKind {
			continue
		}
		whole := testkit.Must(examined(Verifying{Results: QuickDir}, d))(t)
		if whole.State == "none" { // not measured yet
			continue
		}
		name := "records/" + id + ".jsonl"
		r := results{t, t.TempDir(), os.DirFS(QuickDir)}
		for _, folder := range []string{"records", "tables"} {
			testkit.NoError(t, os.Mkdir(r.path(folder), 0o755))
		}
		r.restore(name)
		for _, f := range whole.files {
			r.restore("tables/" + f.Name)
		}
		// The others' records, which are there.
		others := &Examined{RecordsState: RecordsState{Experiment: "others", State: "complete"}}
		testkit.Equal(t, r.err([]*Examined{whole, others}), "", "untouched")
		refused := func(x *Examined, name, want, what string) {
			tried++
			switch got := r.err([]*Examined{x, others}); {
			case got == "":
				t.Errorf("%s, %s: passes", name, what)
			case !strings.Contains(filepath.ToSlash(got), want):
				t.Errorf("%s, %s: %s", name, what, got)
			}
		}
		for _, f := range whole.files {
			name := "tables/" + f.Name
			r.remove(name)
			refused(whole, name, name, "deleted")
			r.write(name, "")
			refused(whole, name, name, "emptied")
			r.write(name, nextDigit(f.Text, 0))
			refused(whole, name, name, "forged")
			r.restore(name)
		}

		again := func(what string) { refused(r.examine(id)[0], name, id, what) }
		r.remove(name)
		again("deleted")
		r.write(name, "")
		again("emptied")
		text := testkit.Must(fs.ReadFile(r.was, name))(t)
		for n, seen := 0, false; !seen; n++ {
			forged := forgedRecord(t, string(text), n)
			if forged == string(text) {
				t.Errorf("%s: the tables show no number of its samples", name)
				break
			}
			r.write(name, forged)
			seen = r.err([]*Examined{r.examine(id)[0], others}) != ""
		}
		again("forged")
		lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\n"), "\n")
		for n := 0; n < len(lines); n += 1 + len(lines)/8 {
			r.write(name, strings.Join(slices.Delete(slices.Clone(lines), n, n+1), ""))
			again(fmt.Sprintf("without line %d", n+1))
		}
	}
	t.Logf("%d forgeries", tried)
}

var digit = regexp.MustCompile(`[0-9]`)

// nextDigit changes the first digit after a place, and not to 0, which JSON does
// not allow before others.
func nextDigit(s string, from int) string {
	d := from + digit.FindStringIndex(s[from:])[0]
	return s[:d] + string('1'+(s[d]-'0')%9) + s[d+1:]
}

// forgedRecord is a records file in which the nth number of every sample's data
// that has n numbers has another first digit, and every line the sum of its content.
func forgedRecord(t *testing.T, text string, n int) string {
	t.Helper()
	number := regexp.MustCompile(`[:\[,][0-9]`)
	return resealed(t, text, func(_ int, r *records.Record) {
		if all := number.FindAllIndex(r.Data, n+1); len(all) > n {
			r.Data = json.RawMessage(nextDigit(string(r.Data), all[n][0]))
		}
	})
}
