package accelerator

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"gpipebench/gpipe/accelerators"
	"gpipebench/gpipe/clock"
	"gpipebench/internal/files"
	"gpipebench/nn/graph"
)

// Accelerator is a device that is modelled by a roofline (Williams, Waterman,
// Patterson 2009): an operation takes as long as its arithmetic at peak rate or
// as its memory traffic at full bandwidth, whichever is longer, plus an
// overhead. [Accelerator.Efficiencies] say which share of either is reached.
// Accelerators are data: see package accelerators, and [Read] for the form.
type Accelerator struct {
	Name        string
	Description string
	// BF16 and F32 are the peak rates of products whose operands have that
	// dtype, in floating-point operations per second; 0: not supported.
	BF16, F32 float64
	Memory    int64   // bytes
	Bandwidth float64 // bytes per second of that memory
	// Lanes is at least 1; the widths of products are padded to a multiple of it.
	Lanes int
	// Tiled says that activations are read and written with their last
	// dimension padded to Lanes.
	Tiled bool
	// Fused says that its compiler runs element-wise operations together with the
	// operation that makes their input.
	Fused bool
	// Packing says that it runs this program's kernels, whose packing buffers
	// then count as workspace: a calibrated host.
	Packing  bool
	Overhead float64 // seconds per operation
	Link     clock.Link
	// Ops has the rates of kinds of operations that are not timed by the peaks, by name.
	Ops map[string]OpRate
	// Shapes has the seconds of operations that were timed on it, by
	// [program.Instr.Shape].
	Shapes map[string]float64
	// Sources says for each field where its figures are from, beginning with verified
	// (read at the source), excerpt (only a quotation was at hand) or assumed.
	Sources map[string]string

	// Efficiencies say which share of the peaks is reached; none: all of it.
	Efficiencies []Efficiency
	// Far is a second, slower link, which connects groups of devices if there is one.
	Far FarLink
	// Kernels is how a GPU runs operations; nil: products are timed by their FLOPs alone.
	Kernels *Kernels
	// Kinds says for each field what its figures are: datasheet, microbenchmark (of single
	// products, copies or collectives), assumed, or training (of a whole one).
	Kinds map[string]string
	// FP16 and FP8 are the peak rates of products in these types; 0: not stated.
	FP16, FP8 float64

	Running
}

// FarLink is the link between devices of different groups: boards, sockets or
// machines.
type FarLink struct {
	Devices int // of a group, such as a node: consecutive ones; 0: there is no such link
	clock.Link
}

// Figures returns the peaks, conventions and times by shape as text: what decided the
// samples of records before there were efficiencies. Its form never changes, since it is
// part of their keys. What efficiencies decide has [Accelerator.Efficient] in its name.
func (a *Accelerator) Figures() string {
	return fmt.Sprintf("{Name:%v Description: BF16:%v F32:%v Memory:%v Bandwidth:%v Lanes:%v Tiled:%v Fused:%v Packing:%v Overhead:%v Link:%+v Ops:%+v Shapes:%v Sources:map[]}",
		a.Name, a.BF16, a.F32, a.Memory, a.Bandwidth, a.Lanes, a.Tiled, a.Fused, a.Packing, a.Overhead, a.Link, a.Ops, a.Shapes)
}

// OpRate times one kind of operation: Overhead + FLOPs/rate + traffic/rate. It is a
// sum, for a core that does not compute while it waits for memory. Parameters and
// accumulators, which were last used a micro-batch ago, take the time of all traffic
// and, in addition, that of Weights. A term whose rate is 0 takes no time.
type OpRate struct {
	FLOPs     float64 `yaml:"flops" want:"optional,1..1e21"`     // floating-point operations per second
	Bandwidth float64 `yaml:"bandwidth" want:"optional,1..1e18"` // bytes per second
	Weights   float64 `yaml:"weights" want:"optional,1..1e18"`   // bytes of parameters and accumulators per second
	Overhead  float64 `yaml:"overhead" want:"0..1"`              // seconds per operation; 0: the accelerator's
}

// All returns the accelerators that come with the program, by name. Their maps are
// shared by all callers.
func All() ([]Accelerator, error) {
	list, err := embedded()
	return slices.Clone(list), err
}

// embedded reads them once: every spec that names one asks for it.
var embedded = sync.OnceValues(func() ([]Accelerator, error) {
	files, err := accelerators.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	var list []Accelerator
	for _, f := range files {
		text, err := accelerators.Files.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		a, err := Read(path.Join("accelerators", f.Name()), text)
		if err != nil {
			return nil, err
		}
		list = append(list, *a)
	}
	return list, nil
})

// fileKind limits an accelerator's file. A calibration's has some hundred kilobytes,
// a line for each shape.
var fileKind = files.Kind{What: "an accelerator", Bytes: 4 << 20}

// NamesFile reports whether Named takes a name as that of a file.
func NamesFile(name string) bool {
	return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml")
}

// Named finds one of All, or reads the file of that name if it ends in .yaml or .yml.
func Named(name string) (*Accelerator, error) {
	if NamesFile(name) {
		text, err := files.Read(name, fileKind)
		if err != nil {
			return nil, err
		}
		return Read(name, text)
	}
	list, err := All()
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(list, func(a Accelerator) bool { return a.Name == name }); i >= 0 {
		return &list[i], nil
	}
	return nil, fmt.Errorf("unknown accelerator %q: want %s, or a file that ends in .yaml", name, strings.Join(Names(), ", "))
}

// Names lists the names of All.
func Names() (names []string) {
	list, err := embedded()
	if err != nil {
		panic(err) // a file that is part of the program
	}
	for _, a := range list {
		names = append(names, a.Name)
	}
	return names
}

// Rate is the peak of products in a dtype, 0 if the accelerator has none.
func (a *Accelerator) Rate(dt graph.DType) float64 {
	if dt == graph.BF16 {
		return a.BF16
	}
	return a.F32
}
