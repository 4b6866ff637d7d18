package experiments

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/lab"
)

// Without the values of papers that its spec has, every experiment reports the reference's samples as it does with
// them, but for "-" where they, or what follows from them, stand.
func TestWithoutThePaper(t *testing.T) {
	for _, d := range List() {
		for what, drop := range map[string]func(key string, of reflect.Type) bool{
			"no value": func(_ string, of reflect.Type) bool { return mayBeMissing(of) },
			"no paper": func(key string, of reflect.Type) bool {
				return key == "paper" && of.Kind() != reflect.Int // of bfloat16-rules, which says "not stated"
			},
		} {
			own, err := d.Load()
			if err != nil {
				t.Fatal(err)
			}
			reference := references(d.ID)
			var root yaml.Node
			if err := yaml.Unmarshal([]byte(d.Spec()), &root); err != nil {
				t.Fatal(err)
			}
			if without(root.Content[0], reflect.ValueOf(own).Elem().FieldByName("Spec").Type(), drop) == 0 {
				continue
			}
			t.Run(d.ID+", "+what, func(t *testing.T) {
				text, err := yaml.Marshal(&root)
				if err != nil {
					t.Fatal(err)
				}
				e, err := d.Load(lab.SpecFile{Name: "x.yaml", Experiment: d.ID, Text: text})
				if err != nil {
					t.Fatal(err)
				}
				if own.Key(reference.Key.Profile).Spec != reference.Key.Spec {
					t.Skip("the reference is of another spec, as TestKeysAreTheReferences says")
				}
				r, err := e.Report(reference, nil)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range r.Rendered() {
					if strings.Contains(f.Text, "NaN") {
						t.Errorf("%s has a figure that is none", f.Name)
					}
				}
				absent := 0
				for _, table := range r.Tables {
					absent += lacks(t, table)
				}
				if absent == 0 {
					t.Error("no value is missing in the tables")
				}
			})
		}
	}
}

// mayBeMissing reports whether a field of a spec is a value of a paper: the types that say what is missing.
func mayBeMissing(of reflect.Type) bool { return of.Implements(reflect.TypeFor[yaml.IsZeroer]()) }

// without takes the fields that drop accepts out of a part of a spec, by its type, and returns how many.
func without(n *yaml.Node, of reflect.Type, drop func(key string, of reflect.Type) bool) (dropped int) {
	if n.Kind == yaml.AliasNode {
		return 0 // what it repeats is without them
	}
	if of.Kind() == reflect.Pointer {
		return without(n, of.Elem(), drop)
	}
	switch of.Kind() {
	case reflect.Slice, reflect.Array:
		for _, entry := range n.Content {
			dropped += without(entry, of.Elem(), drop)
		}
	case reflect.Map:
		for i := 1; i < len(n.Content); i += 2 {
			dropped += without(n.Content[i], of.Elem(), drop)
		}
	case reflect.Struct:
		for i := range of.NumField() {
			f := of.Field(i)
			name, option, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			if option == "inline" {
				dropped += without(n, f.Type, drop)
				continue
			}
			at := 0
			for at < len(n.Content) && n.Content[at].Value != name {
				at += 2
			}
			switch {
			case n.Kind != yaml.MappingNode || name == "" || at == len(n.Content):
			case drop(name, f.Type):
				n.Content = slices.Delete(n.Content, at, at+2)
				dropped++
			default:
				dropped += without(n.Content[at+1], f.Type, drop)
			}
		}
	}
	return dropped
}

// lacks returns how many cells of the reference's table are "-" in a table, and reports rows that differ in another way.
// Some tables are sorted by what is near the paper, and torchgpipe has a row where it has values.
func lacks(t *testing.T, table *lab.Table) (absent int) {
	t.Helper()
	var text strings.Builder
	if err := table.Write(&text, "csv"); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join("../results/reference/tables", table.ID+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	read := func(text string) (rows [][]string) {
		rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	got, want := read(text.String()), read(string(file))
	ours := func(rows [][]string) int {
		return len(slices.DeleteFunc(slices.Clone(rows), func(row []string) bool { return strings.HasPrefix(row[0], "torchgpipe") }))
	}
	if ours(got) != ours(want) {
		t.Errorf("%s: %d rows, want %d", table.ID, len(got)-1, len(want)-1)
	}
	for _, row := range got[1:] {
		known := slices.IndexFunc(want, func(of []string) bool {
			for i, cell := range row {
				at := slices.Index(want[0], got[0][i])
				missing, rest, _ := strings.Cut(cell, " ")
				if at < 0 || cell != of[at] && !(missing == lab.Absent.Text && strings.HasSuffix(of[at], rest)) {
					return false
				}
			}
			return true
		})
		if known < 0 {
			t.Errorf("%s: %q is not a row of the reference's, but for what is missing", table.ID, row)
			continue
		}
		for i, cell := range row {
			if cell != want[known][slices.Index(want[0], got[0][i])] {
				absent++
			}
		}
		absent += len(want[0]) - len(row) // columns that are there for the paper alone
	}
	return absent
}
