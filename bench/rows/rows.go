// Package rows is what bench measures: its rows, their samples among the records,
// and the table of them that results/reference/README.md has.
package rows

import (
	"fmt"
	"strings"

	"gpipebench/internal/machine"
	"gpipebench/internal/stats"
	"gpipebench/lab"
	"gpipebench/lab/records"
)

// Row is what is measured: its name, what it is, and what it should reach.
type Row struct{ Name, Title, Reach string }

const aim = "not slower than PyTorch, aim for 0.8 of its time"

// scale is the row that Scale draws.
const scale = "simulate-scale"

// List is all rows, in the order in which they are measured.
var List = []Row{
	{"roof", "what one core can do at most, in C: multiply-adds in registers, reads of 256 KiB and of 256 MiB", "none: what the other rows are held against"},
	{"sgemm", "SGEMM, one core", "0.95 of OpenBLAS or more"},
	{"step", "training step of transformer-lm L6 d256 ff1024 h8 seq128 vocab8192 batch16, SGD momentum", aim},
	{"resnet", "training step of ResNet-101, 64x64 batch 16, SGD momentum", aim},
	{"amoebanet", "training step of AmoebaNet-D (6, 64), 224x224 batch 4, SGD momentum", aim},
	{"gpt2", "training step of GPT-2 124M (L12 d768 h12 vocab50256, tied, GELU), 4 x 64 tokens, SGD momentum", "0.75 of PyTorch's time"},
	{"gpt2-512", "training step of GPT-2 124M, 4 x 512 tokens, SGD momentum", "0.75 of PyTorch's time"},
	{"smollm2", "training step of SmolLM2-135M's shape, 4 x 64 tokens, SGD momentum", aim},
	{"resnet50", "training step of ResNet-50, 224x224 batch 4, SGD momentum", aim},
	{"translator", "training step of GNMT (4 + 4 layers, d512, vocab 32000), 16 x 32 tokens, SGD momentum", aim},
	{"kernels", "convolutions and matrix products of a training step, one core", "not slower than oneDNN, or within 1.15 of the roofline"},
	{"roofline", "a training step by kind of layer (below), one core", "within 1.15 of the roofline if a target above is missed"},
	{"pipeline", "K = 2 on two cores against K = 1 on one, even transformer, M = 16", "0.95 of the closed form or more"},
	{"emulated", "emulated K = 2 against real K = 2", "within 5%"},
	{"replicas", "R = 2 on two cores against R = 1 on one, even transformer, 16 micro-batches in all", "0.95 of twice the throughput or more"},
	{"reduction", "sums of 138 MB of gradients over two replicas in one process", "0.8 or more of a copy and an addition on two cores"},
	{"emulated-replicas", "emulated R = 2 against real R = 2", "within 5%"},
	{"remat", "re-materialisation, K = 1, checkpoint always against never", "1.34 or less"},
	{"simulate", "simulate Transformer-1663, K = 128, M = 32", "less than 5 s and 1 GiB"},
	{scale, "simulate a step of 3 K M tasks, a layer a device", "linear; the last at most 10 s and 1.5 GB"},
}

// Sample is what was measured for one line of a row, side by side.
type Sample struct {
	What    string   `json:"what"`
	Figures []Figure `json:"figures"`
	Note    string   `json:"note,omitempty"`  // on the peer, or why it is missing
	Kinds   []Kind   `json:"kinds,omitempty"` // of the row roofline: what the step consists of
}

// Figure is a measurement's turns, or what was computed of them.
type Figure struct {
	Name   string    `json:"name"`
	Unit   string    `json:"unit,omitempty"`
	Values []float64 `json:"values"` // the median counts
}

// Add adds a figure.
func (s *Sample) Add(name, unit string, values ...float64) {
	s.Figures = append(s.Figures, Figure{name, unit, values})
}

// Check wants values.
func (s *Sample) Check() error {
	for _, f := range s.Figures {
		if len(f.Values) == 0 {
			return fmt.Errorf("%q has no values", f.Name)
		}
	}
	return nil
}

func (f Figure) String() string {
	v := stats.Median(f.Values)
	switch f.Unit {
	case "s":
		return fmt.Sprintf("%s %.4g s", f.Name, v)
	case "MiB":
		return fmt.Sprintf("%s %.0f MiB", f.Name, v)
	case "":
		return fmt.Sprintf("%s %.3f", f.Name, v)
	}
	return fmt.Sprintf("%s %.1f %s", f.Name, v, f.Unit)
}

// String is the medians in one line.
func (s *Sample) String() string {
	var parts []string
	for _, f := range s.Figures {
		parts = append(parts, f.String())
	}
	if s.Note != "" {
		parts = append(parts, "("+s.Note+")")
	}
	return strings.Join(parts, ", ")
}

// Key is the samples' key. It depends on no row, so that one can be measured without the
// others: a row that measures something else takes another name.
func Key() records.Key {
	return records.Key{Experiment: "bench", Profile: "peers", Spec: machine.Digest("rows by name"), Machine: machine.This().Key()}
}

// SampleName is the name of a row's sample.
func (r Row) SampleName(s *Sample) string { return r.Name + "/" + s.What }

// Table is the newest measurement of every row. One that lacks samples says so.
func Table(log *records.Log) (*lab.Table, error) {
	t := &lab.Table{
		ID: "bench", Title: "Speed beside that of peers",
		Notes: []string{lab.ProvenanceNote(log)},
	}
	t.Texts("what", "of it", "medians", "target")
	for _, r := range List {
		rows := len(t.Rows)
		for _, name := range log.Names {
			if !strings.HasPrefix(name, r.Name+"/") {
				continue
			}
			var s Sample
			if err := log.Get(name, &s); err != nil {
				return nil, err
			}
			t.Add(r.Title, s.What, s.String(), r.Reach)
		}
		if len(t.Rows) == rows {
			t.Add(r.Title, "", "not measured", r.Reach)
		}
	}
	return t, nil
}
