package experiments

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// mostTables is how many there may be: a new one replaces one, or is columns of one.
const mostTables = 95

// Every table of the reference but an experiment's own, which its command shows, is named by a claim
// or in a document. Lists of all results, which are generated, do not count.
func TestTablesAreRead(t *testing.T) {
	var named strings.Builder
	for _, p := range Papers {
		named.Write(p.Claims)
	}
	documents, err := filepath.Glob("../docs/*.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("no documents", err)
	}
	generated := regexp.MustCompile(`(?ms)^(<!-- [a-z-]+(?:: [^\n]*)? -->)\n.*?^<!-- end -->$`)
	for _, name := range append(documents, "../README.md") {
		text := testkit.Must(os.ReadFile(name))(t)
		named.Write(generated.ReplaceAll(text, []byte("$1")))
	}
	tables, err := filepath.Glob("../results/reference*/tables/*.csv")
	if err != nil || len(tables) == 0 {
		t.Fatal("no tables", err)
	}
	all := map[string]bool{}
	for _, name := range tables {
		all[strings.TrimSuffix(filepath.Base(name), ".csv")] = true
	}
	if len(all) > mostTables {
		t.Errorf("%d tables: want at most %d; one of the same rows as another is columns of it", len(all), mostTables)
	}
	isRead := func(id string) bool {
		return regexp.MustCompile("(?m)[\"`]" + id + "[\"`]|\\btable: " + id + "[,}]|<!-- table: " + id + "( \\||$)").MatchString(named.String())
	}
	for id := range all {
		if !slices.Contains(IDs(), id) && !isRead(id) {
			t.Errorf("no claim and no document reads table %s: want one that does, or no table; `gpipebench records` shows what it was made of", id)
		}
	}
	if isRead("table1-nothing") || !isRead("table1-fits") || !isRead("predictions-parts") {
		t.Error("what is read is not told from what is not")
	}
}
