package experiments

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"gpipebench/internal/testkit"
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
			own := testkit.Must(d.Load())(t)
			reference := references(d.ID)
			var root yaml.Node
			testkit.NoError(t, yaml.Unmarshal([]byte(d.Spec()), &root))
			if without(root.Content[0], reflect.Indirect(reflect.ValueOf(own)).FieldByName("Spec").Type(), drop) == 0 {
				continue
			}
			t.Run(d.ID+", "+what, func(t *testing.T) {
				text := testkit.Must(yaml.Marshal(&root))(t)
				e := testkit.Must(d.Load(lab.SpecFile{Name: "x.yaml", Experiment: d.ID, Text: text}))(t)
				if own.Key(reference.Key.Profile).Spec != reference.Key.Spec {
					t.Skip("the reference is of another spec, as TestKeysAreTheReferences says")
				}
				r, err := e.Report(reference, nil)
				whole, e2 := own.Report(reference, nil)
				testkit.NoError(t, errors.Join(err, e2))
				testkit.Equal(t, len(r.Tables), len(whole.Tables), "tables")
				for _, f := range r.Rendered() {
					if strings.Contains(f.Text, "NaN") {
						t.Errorf("%s has a figure that is none", f.Name)
					}
				}
				absent := 0
				for i, table := range r.Tables {
					absent += lacks(t, table, whole.Tables[i])
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

// lacks returns how many cells of a whole table are "-" in a table, and reports rows that differ in another way. Some
// tables are sorted by what is near the paper, and torchgpipe has a row where it has values.
func lacks(t *testing.T, table, whole *lab.Table) (absent int) {
	t.Helper()
	got, want := table.Printed(), whole.Printed()
	ours := func(rows [][]string) int {
		return len(slices.DeleteFunc(slices.Clone(rows), func(row []string) bool {
			return strings.HasPrefix(row[0], "torchgpipe") || strings.HasPrefix(row[1], "torchgpipe")
		}))
	}
	testkit.Equal(t, ours(got), ours(want), "%s: %d rows, want %d", table.ID, len(got), len(want))
	at := make([]int, len(table.Columns))
	for i, c := range table.Columns {
		if at[i] = whole.Column(c.ID); at[i] < 0 {
			t.Fatalf("%s: a column %s", table.ID, c.Name)
		}
	}
	for _, row := range got {
		known := slices.IndexFunc(want, func(of []string) bool {
			for i, cell := range row {
				missing, rest, _ := strings.Cut(cell, " ")
				if was := of[at[i]]; cell != was && !(missing == lab.Absent.Text && strings.HasSuffix(was, rest)) {
					return false
				}
			}
			return true
		})
		if known < 0 {
			t.Errorf("%s: %q is not a row of the whole table, but for what is missing", table.ID, row)
			continue
		}
		for i, cell := range row {
			if cell != want[known][at[i]] {
				absent++
			}
		}
		absent += len(whole.Columns) - len(row) // columns that are there for the paper alone
	}
	return absent
}
