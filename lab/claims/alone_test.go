package claims

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// A folder with a ledger and tables is judged without records: figures as they are printed, with
// their intervals.
func TestLedgerAlone(t *testing.T) {
	v := testkit.Must(Alone{Dir: filepath.Join("..", "..", "examples", "ledger")}.Run(t.Context()))(t)
	if n := v.Counts[Reproduced]; n != len(v.Claims)-2 || n < 10 || v.Counts[Follows] != 1 || v.Counts[NotAttempted] != 1 || v.Err(true) != nil {
		t.Errorf("%v, %v", v.Counts, v.Err(true))
	}
	if len(v.Headline) != 1 || v.Headline[0].Verdict != RowHolds || v.Headline[0].Shown[0].Here != "1516" {
		t.Errorf("%+v", v.Headline)
	}
	var text strings.Builder
	testkit.NoError(t, v.WriteText(&text, true))
	testkit.Has(t, text.String(), "Claims of the ledger ../../examples/ledger, and what came out here")
}

const aloneLedger = `versions: {N: the paper}
tolerances: {near: {percent: 10, because: a reason}}
claims:
  - {id: speed, version: N, where: Table 1, claim: it is 3.2 times as fast, kind: ratio, paper: "3.2", tolerance: near, check: {measured: 'cell("t", "ours", "k", 8)'}}
  - {id: size, version: N, where: Table 1, claim: it is small, kind: trend, check: {counted: 'cell("t", "bytes", "k", 8) < 2e9'}}
`

func TestLedgerAloneByItsTables(t *testing.T) {
	const table = "k,ours,bytes\n8,3.2,1\n"
	for _, c := range []struct {
		old, replacement string // in the ledger
		table            string
		want             []Verdict // of speed and size
		says             string    // of the error, or of what is wrong; "": neither
	}{
		{"", "", "k,ours,bytes\n4,1,1GB\n8,\"3.24 [3.18, 3.28]\",1.2GB\n", []Verdict{Reproduced, Holds}, ""},
		{"", "", "K,Ours,Bytes\n8,\"3.5 [3.3, 3.7]\",\"2.5 GB [1.5 GB, 3 GB]\"\n", []Verdict{NotDecided, NotDecided}, ""},
		{"", "", "k,ours,bytes\n8,4,3 GB\n", []Verdict{Differs, Fails}, ""},
		{"", "", "k,ours,bytes\n16,4,3 GB\n", []Verdict{NoRecord, NoRecord}, "speed: table t has 0 rows with k 8"},
		{`cell("t", "bytes"`, `cell("t", "byts"`, table, []Verdict{Reproduced, NoRecord}, `size: table t has no column "byts", but k | ours | bytes`},
		{`< 2e9'}`, `< 2e9'}, shows: {seconds: 'cell("t", "seconds")'}`, table, []Verdict{Reproduced, Holds}, `size: table t has no column "seconds"`},
		{`cell("t", "bytes"`, `cell("u", "bytes"`, table, []Verdict{Reproduced, NoRecord}, ""},
		{"", "", "k,ours,bytes\n8,no number,-\n", []Verdict{NoRecord, NoRecord}, ""},
		{"", "", "k,ours,bytes\n8,4\n", nil, "t.csv:2:1: wrong number of fields: want CSV"},
		{"", "", "k,ours,bytes\n\n8,\"3.24 [3.28, 3.3]\",1\n", nil, `t.csv:3: "3.24 [3.28, 3.3]": want a number within its interval, such as 3.24 [3.18, 3.28]`},
		{"", "", "k,ours,Ours\n8,4,5\n", nil, `t.csv:1: two columns "ours": want each once`},
		{"", "", "k,ours,bytes\n", nil, "t.csv: no rows: want a line with the names of the columns, and a line for each row"},
		{"", "", "", nil, "t.csv: no rows: want"},
		{`kind: trend, check: {counted: 'cell("t", "bytes", "k", 8) < 2e9'}`, "kind: stand-in, stand_in: ours, design: some/one", table, nil, "/claims.yaml:5: size: a design is part of an experiment, and a ledger by itself has none: want a check"},
		{"{id: speed, version: N", "{id: speed", table, nil, "claims.yaml:4:5: claims.0: no version: want"},
	} {
		dir := t.TempDir()
		for name, content := range map[string]string{"claims.yaml": strings.Replace(aloneLedger, c.old, c.replacement, 1), "t.csv": c.table, "notes.txt": "of no table"} {
			testkit.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
		}
		v, err := Alone{Dir: dir}.Run(t.Context())
		if c.want == nil {
			testkit.Fails(t, err, filepath.FromSlash(c.says))
			continue
		}
		testkit.NoError(t, err, "%q", c.table)
		if c.says != "" {
			testkit.Fails(t, v.Err(false), c.says)
		} else if len(v.Wrong) > 0 {
			t.Errorf("%q: wrong: %v", c.table, v.Wrong)
		}
		for i, want := range c.want {
			testkit.Equal(t, v.Claims[i].Verdict, want, "%q: %s", c.table, v.Claims[i].ID)
		}
	}
	testkit.Refused((Alone{Dir: filepath.Join("..", "..", "examples", "ledger"), Only: []string{"none"}}).Run(t.Context()))(t, `--only: "none" is no claim`)
}
