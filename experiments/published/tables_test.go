package published

import (
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// small is a file with one row that can be modelled and three that cannot.
const small = `schema: scoreboard-tables/1
units: {step_s: seconds, 'gpus, *_gb': counts}
devices:
  - {id: chip, peak_tflops: {fp32: 10, bf16: 100}, mem_gb: 80, mem_gb_s: 2000, kind: datasheet, src: its data sheet}
  - {id: other, peak_tflops: null, mem_gb: null, src: null}
nodes:
  - {id: box, gpus_per_node: 8, link_gb_s: 300, far_gb_s_per_gpu: null, efficiency: null, src: its data sheet}
tables:
  - id: mine
    title: Mine
    device: chip
    node: box
    framework: null
    modelled: 'no: only some'
    common: {model_class: dense, what: step_s, layers: 4, hidden: 64, heads: 4, seq: 32, gpus: 4, tp: 1, pp: 2, mbs: 2, gbs: 16, mlp: gelu}
    assume: {vocab: {value: 96, why: not stated}, recompute: {value: none, why: not stated}, precision: {value: bf16, why: not stated}, zero: {value: 1, why: usual}}
    rows:
      - {id: mine-1, modelled: null, value: 1.5, as_printed: '1.5 s'}
      - {id: mine-2, modelled: null, layers: null, value: 2}
      - {id: mine-3, value: 3, sp: true, recompute: full}
      - {id: mine-4, modelled: null, value: 3, heads: 5}
`

func TestRowsTakeFromTheirTable(t *testing.T) {
	tables := testkit.Must(Parse("small.yaml", []byte(small)))(t)
	table := &tables.Tables[0]
	want := []string{"", "layers not stated", "only some", "hidden is not divisible by heads"}
	for i := range table.Rows {
		testkit.Equal(t, tables.reason(table, &table.Rows[i]), want[i], "row %d", i)
	}
	r := table.assuming(table.Rows[0])
	if r.Layers != 4 || r.FF != 256 || r.KVHeads != 4 || r.Vocab != 96 || r.Replicas != 2 || r.Chunks != 1 || *r.ZeRO != 1 || *r.Sequence || r.Schedule != "1f1b" || r.Recompute != "none" || r.Device != "chip" {
		t.Errorf("row 0 is %+v", r)
	}
	if r := table.assuming(table.Rows[2]); !*r.Sequence || r.Recompute != "full" {
		t.Errorf("row 2 is %+v", r)
	}
	if r := table.Rows[1]; r.Layers != 0 || r.Hidden != 64 {
		t.Errorf("a null takes from its table: %+v", r)
	}
}

func TestTableErrorsHavePositions(t *testing.T) {
	for _, c := range []struct{ old, replacement, want string }{
		{"scoreboard-tables/1", "scoreboard-tables/2", `:1:9: schema: unknown "scoreboard-tables/2": want scoreboard-tables/1`},
		{"devices:", "gadgets:", "unknown field gadgets: want schema, units"},
		{"id: mine-3", "id: mine-1", "there already, as entry 0"},
		{"sp: true", "sp: maybe", `:20:36: tables.0.rows.2.sp: "maybe": want true or false`},
		{"recompute: full", "recompute: some", `tables.0.rows.2.recompute: unknown "some": want none, selective, full`},
		{"value: 2}", "valve: 2}", ":19:52: tables.0.rows.1: unknown field valve: want id"},
		{"value: 2}", "value: -2}", `"-2": want a number above 0`},
		{"node: box", "node: bag", `:12:5: tables.0.node: unknown node "bag": want an id of nodes`},
		{"    device: chip", "    device: chop", `tables.0.device: unknown device "chop": want an id of devices`},
		{"zero: {value: 1,", "zero: {value: 4,", `tables.0.assume.zero.value: "4": want a whole number from 0 to 3`},
		{"zero: {value: 1,", "zorro: {value: 1,", "tables.0.assume.zorro.value: assumed: unknown field zorro: want id"},
		{"what: step_s", "what: step_ms", `tables.0.common.what: unknown "step_ms": want step_s, peak_bytes`},
		{"model_class: dense", "model_class: dens", `tables.0.common.model_class: unknown "dens": want dense, moe`},
		{"precision: {value: bf16", "precision: {value: bf15", `tables.0.assume.precision.value: unknown "bf15": want fp32, fp16, bf16`},
		{"what: step_s, ", "", "tables.0.rows.0: no what: want what the value is"},
		{"layers: 4,", "layers: 4.5,", `tables.0.common.layers: "4.5": want a whole number from 1`},
		{"devices:", "efficiencies: []\ndevices:", ""},
		{"assume: {vocab", "assume: [vocab", "want YAML"},
		{"schema: ", "schema: [", "want YAML"},
	} {
		_, err := Parse("small.yaml", []byte(strings.Replace(small, c.old, c.replacement, 1)))
		if c.want == "" {
			testkit.Equal(t, err, nil)
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), "small.yaml:") || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s", c.replacement, err, c.want)
		}
	}
}

// Each table may have more rows than lists of other documents.
func TestManyRows(t *testing.T) {
	var rows strings.Builder
	for i := range 1500 {
		rows.WriteString("      - {id: more-" + strings.Repeat("x", i%20) + string(rune('a'+i/20%26)) + string(rune('a'+i/520)) + ", value: 1}\n")
	}
	tables, err := Parse("small.yaml", []byte(small+rows.String()))
	if err != nil || len(tables.Tables[0].Rows) != 1504 {
		t.Error(err)
	}
}

// What was chosen in view of the tables is said in the same words wherever errors are, and each table with
// rows that can be modelled has its claims, whatever comes out.
func TestClaimsOfEveryTable(t *testing.T) {
	text := string(testkit.Must(folder.ReadFile("claims.yaml"))(t))
	for _, about := range []string{Paper.Experiment(id).About().Text, text} {
		testkit.Has(t, about, Fitted)
	}
	claimed := func(id string) (all string) {
		for _, part := range strings.Split(text, "  - id: ") {
			if strings.HasPrefix(part, id) {
				all += part
			}
		}
		return all
	}
	for _, of := range Committed().trainings() {
		for _, row := range of.rows {
			what := map[string]string{stepSeconds: "steps", peakBytes: "peaks of memory"}[row.What]
			testkit.Has(t, claimed("published-error"), "table: "+of.table.ID+", what: "+what)
			if row.What == stepSeconds && of.table.ID != Apart {
				testkit.Has(t, claimed("published-share"), "table: "+of.table.ID+", of: ")
			}
		}
	}
	testkit.Has(t, claimed("published-share-"+Apart), "kind: derived")
}
