package published

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The rule says which rows can be modelled; it is the one in the head of predictions/tables.yaml, whose rows have
// whole heads besides.

const (
	stepSeconds = "step_s"
	peakBytes   = "peak_bytes"
)

// precisions are those that a row that can be modelled has.
var precisions = []string{"fp32", "fp16", "bf16"}

// reason says why a row cannot be modelled; "": it can.
func (t *Tables) reason(table *Table, r *Row) string {
	device := t.device(r.Device)
	switch {
	case r.Modelled != "":
		return strings.TrimPrefix(r.Modelled, "no: ")
	case r.Class != "dense":
		return "model_class " + cmp.Or(r.Class, "not stated")
	case r.What != stepSeconds && r.What != peakBytes:
		return "what " + r.What
	case r.OOM:
		return "oom"
	case r.Suspect != "":
		return "suspect: " + r.Suspect
	case r.Value == nil:
		return "no value"
	case device == nil || device.Source == "":
		return fmt.Sprintf("device %s without a source", cmp.Or(r.Device, "not stated"))
	}
	for _, f := range []struct {
		name   string
		stated int
	}{
		{"layers", r.Layers}, {"hidden", r.Hidden}, {"heads", r.Heads}, {"seq", r.Seq}, {"gpus", r.Devices},
		{"tp", r.Tensor}, {"pp", r.Pipeline}, {"mbs", r.Micro}, {"gbs", r.Batch},
	} {
		if f.stated == 0 {
			return f.name + " not stated"
		}
	}
	a := table.assumed
	for _, f := range []struct {
		name  string
		known bool
	}{
		{"vocab", r.Vocab+a.Vocab > 0}, {"recompute", r.Recompute+a.Recompute != ""}, {"precision", r.Precision+a.Precision != ""},
	} {
		if !f.known {
			return f.name + " neither stated nor assumed"
		}
	}
	if p := cmp.Or(r.Precision, a.Precision); !slices.Contains(precisions, p) {
		return "precision " + p
	}
	parts := r.Tensor * r.Pipeline * max(r.Context, 1)
	switch {
	case r.Replicas == 0 && r.Devices%parts != 0:
		return "dp not stated and gpus not divisible"
	case r.Replicas > 0 && r.Replicas*parts != r.Devices:
		return "dp*tp*pp*cp is not gpus"
	case r.Hidden%r.Heads != 0:
		return "hidden is not divisible by heads"
	}
	return ""
}

// assuming is the row with what its table assumes and the file's defaults where it states nothing.
func (table *Table) assuming(r Row) Row {
	a := table.assumed
	r.MLP, r.Recompute, r.Schedule, r.Precision = cmp.Or(r.MLP, a.MLP, "gelu"), cmp.Or(r.Recompute, a.Recompute), cmp.Or(r.Schedule, a.Schedule), cmp.Or(r.Precision, a.Precision)
	for _, f := range []struct {
		of      *int
		assumed int
	}{
		{&r.Vocab, a.Vocab}, {&r.FF, cmp.Or(a.FF, 4*r.Hidden)}, {&r.KVHeads, cmp.Or(a.KVHeads, r.Heads)}, {&r.Chunks, cmp.Or(a.Chunks, 1)},
		{&r.Context, cmp.Or(a.Context, 1)}, {&r.Experts, cmp.Or(a.Experts, 1)},
	} {
		*f.of = cmp.Or(*f.of, f.assumed)
	}
	r.Replicas = cmp.Or(r.Replicas, r.Devices/max(1, r.Tensor*r.Pipeline*r.Context))
	r.Tied, r.Sequence, r.ZeRO = cmp.Or(r.Tied, a.Tied, new(bool)), cmp.Or(r.Sequence, a.Sequence, new(bool)), cmp.Or(r.ZeRO, a.ZeRO, new(int))
	if r.Schedule == "" || r.Schedule == "none" {
		r.Schedule = "1f1b"
		if r.Chunks > 1 {
			r.Schedule = "interleaved"
		}
	}
	return r
}
