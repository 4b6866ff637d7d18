package published

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gpipebench/internal/testkit"
)

// Each field that a row may state is modelled, also where parts do not divide what they should.
func TestEveryDimensionIsModelled(t *testing.T) {
	var rows strings.Builder
	var ids []string
	for i, fields := range []string{
		"pp: 1, schedule: none", "pp: 2, schedule: gpipe", "pp: 2, schedule: 1f1b", "pp: 2, v: 2, schedule: interleaved", "pp: 2, schedule: interleaved, v: null",
		"pp: 2, schedule: zb-1p", "pp: 2, schedule: zb-2p", "pp: 2, schedule: dualpipe", "pp: 1, v: 2, schedule: interleaved", "pp: 3, gpus: 3, mbs: 1",
		"tp: 2", "tp: 2, sp: true", "sp: true", "tp: 4, pp: 1, heads: 2", "tp: 3, pp: 1, gpus: 3, hidden: 96, heads: 4, ffn: 100, vocab: 100",
		"tp: 16, pp: 1, gpus: 16, heads: 16", "zero: 1", "zero: 2", "zero: 3, pp: 1", "recompute: full", "recompute: selective", "cp: 2, pp: 1",
		"mlp: swiglu, kv_heads: 2, ffn: 100, tied: false", "tied: true", "precision: fp32", "precision: fp16", "dp: 2", "gbs: 15", "framework: torchtitan, recompute: selective, variant: eager",
		"framework: Megatron-DeepSpeed, optimizer: 'adam, fp32 gradients'", "framework: Megatron-Bridge, zero: 3", "node: null", "what: peak_bytes",
		"pp: 2, v: 2, schedule: interleaved, gbs: 12, mbs: 4", "vocab: 97, tp: 2, layers: 5",
	} {
		ids = append(ids, fmt.Sprintf("odd-%d", i))
		fmt.Fprintf(&rows, "      - {id: odd-%d, modelled: null, value: 1, %s}\n", i, fields)
	}
	tables := testkit.Must(Parse("odd.yaml", []byte(strings.Replace(small, ", value: 1.5, as_printed: '1.5 s'}\n", ", value: 1.5}\n"+rows.String(), 1))))(t)
	table := &tables.Tables[0]
	for i := range table.Rows {
		row := &table.Rows[i]
		if !slices.Contains(ids, row.ID) {
			continue
		}
		if reason := tables.reason(table, row); reason != "" {
			t.Errorf("%s: %s", row.ID, reason)
			continue
		}
		p := testkit.Must(tables.predict(t.Context(), table, row, nil))(t, "%+v", *row)
		if !(p.Seconds > 0) || p.Bytes < 1 || math.Abs(p.Parts.Sum()/p.Seconds-1) > 1e-9 {
			t.Errorf("%+v: %+v", *row, p)
		}
	}
}

// More replicas share the same mini-batch in less time, and sharded states take less memory.
func TestPredictionsFollowTheLayout(t *testing.T) {
	tables := testkit.Must(Parse("small.yaml", []byte(small)))(t)
	table := &tables.Tables[0]
	of := func(change func(*Row)) Predicted {
		row := table.Rows[0]
		row.Layers, row.Hidden, row.Heads, row.Seq = 8, 1024, 16, 512
		change(&row)
		return testkit.Must(tables.predict(t.Context(), table, &row, nil))(t)
	}
	one, more := of(func(*Row) {}), of(func(r *Row) { r.Devices = 8 })
	if !(more.Seconds < one.Seconds) || !(more.Bytes < one.Bytes) { // ZeRO 1
		t.Errorf("8 devices: %+v, 4: %+v", more, one)
	}
	if full := of(func(r *Row) { r.Recompute = "full" }); !(full.Seconds > one.Seconds) || !(full.Bytes < one.Bytes) {
		t.Errorf("recomputed: %+v, not: %+v", full, one)
	}
}
