package published

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// The rule is the one of the program that scores predictions, where that is at hand.
func TestRuleIsTheScorers(t *testing.T) {
	const file, scorer = "predictions/tables.yaml", "../../../shared/score.py"
	if _, err := os.Stat(scorer); err != nil {
		t.Skip("no ../shared/score.py beside this checkout")
	}
	out, err := exec.Command("python3", scorer, file, "--list").CombinedOutput()
	if err != nil {
		t.Skipf("python3 with PyYAML cannot run it: %v: %s", err, out)
	}
	got := ""
	tables := Committed()
	for i := range tables.Tables {
		table := &tables.Tables[i]
		why, order, can := map[string]int{}, []string{}, ""
		n := 0
		for k := range table.Rows {
			r := &table.Rows[k]
			reason := tables.reason(table, r)
			if reason == "" {
				n++
				can += fmt.Sprintf("  %s %s\n", r.ID, r.What)
				continue
			}
			if why[reason] == 0 {
				order = append(order, reason)
			}
			why[reason]++
		}
		got += fmt.Sprintf("%s: %d of %d", table.ID, n, len(table.Rows))
		for len(order) > 0 { // the most frequent first, then in order
			most := 0
			for i, o := range order {
				if why[o] > why[order[most]] {
					most = i
				}
			}
			got += fmt.Sprintf("; %d %s", why[order[most]], order[most])
			order = append(order[:most], order[most+1:]...)
		}
		got += "\n" + can
	}
	var want strings.Builder // without the values, which Python prints in its own way
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "  ") {
			line = fmt.Sprintf("  %s %s\n", fields[0], fields[1])
		}
		want.WriteString(line)
	}
	if got != want.String() {
		t.Errorf("rows that can be modelled, and why others cannot:\n%s\nscore.py:\n%s", got, &want)
	}
}
