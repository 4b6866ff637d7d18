package accelerator

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe/clock"
	"gpipebench/internal/yamldoc"
	"gpipebench/nn/graph"
)

// document is an accelerator's file, as package accelerators explains it (tpuv2.yaml). What
// yamldoc does not know of it, check does.
type document struct {
	Name        string `yaml:"name" want:"accelerator"`
	Description string `yaml:"description" want:"optional"`
	FLOPs       struct {
		BF16 float64 `yaml:"bf16" want:"optional,1..1e21"`
		F32  float64 `yaml:"f32" want:"optional,1..1e21"`
		FP16 float64 `yaml:"fp16" want:"optional,1..1e21"`
		FP8  float64 `yaml:"fp8" want:"optional,1..1e21"`
	} `yaml:"flops"`
	Memory       size               `yaml:"memory"`
	Bandwidth    float64            `yaml:"bandwidth" want:"1..1e18"`
	Lanes        int                `yaml:"lanes" want:"optional,1..65536"`
	Tiled        bool               `yaml:"tiled"`
	Fused        bool               `yaml:"fused"`
	Packing      bool               `yaml:"packing"`
	Overhead     float64            `yaml:"overhead" want:"0..1"`
	Link         *linkFields        `yaml:"link" want:"none"`
	Far          *farFields         `yaml:"far_link"`
	Kernels      *kernelFields      `yaml:"kernels"`
	Efficiencies []efficiencyFields `yaml:"efficiencies" want:"optional"`
	Ops          map[string]OpRate  `yaml:"ops" want:"optional"`
	Shapes       shapeTimes         `yaml:"shapes" want:"optional"`
	Sources      map[string]string  `yaml:"sources" want:"optional"`
	Kinds        map[string]string  `yaml:"kinds" want:"optional"`
}

// kernelFields are the fields of Kernels.
type kernelFields struct {
	Processors int      `yaml:"processors" want:"1..65536"`
	Tiles      [][2]int `yaml:"tiles"`
	Cache      float64  `yaml:"cache" want:"1..1e18"`
	Start      float64  `yaml:"start" want:"0..1"`
	Unaligned  float64  `yaml:"unaligned" want:"optional,1..1e21"`
	Issue      float64  `yaml:"issue" want:"0..1"`
}

// kinds are what figures may be: see [Accelerator.Kinds].
var kinds = []string{"datasheet", "microbenchmark", "assumed", "training"}

type linkFields struct {
	Bandwidth   float64 `yaml:"bandwidth" want:"1..1e18"`
	Latency     float64 `yaml:"latency" want:"0..10"`
	ThroughHost bool    `yaml:"through_host"`
}

type farFields struct {
	Devices    int `yaml:"devices" want:"1..1048576"`
	linkFields `yaml:",inline"`
}

// efficiencyFields have a share for all sizes, or a list of sizes.
type efficiencyFields struct {
	Of          string `yaml:"of" want:"efficiency"`
	DType       string `yaml:"dtype" want:"optional,dtype"`
	shareFields `yaml:",inline"`
	Sizes       []sizeFields `yaml:"sizes" want:"optional"`
	Source      string       `yaml:"source"`
	Kind        string       `yaml:"kind" want:"optional,kind"`
}

type sizeFields struct {
	Size        int `yaml:"size" want:"1..1073741824"`
	shareFields `yaml:",inline"`
}

type shareFields struct {
	Share float64     `yaml:"share" want:"optional,1e-6..10"`
	Band  *[2]float64 `yaml:"band" want:"1e-6..10"`
}

// size is a number of bytes.
type size int64

func (s *size) UnmarshalYAML(n *yaml.Node) error {
	text, unit := n.Value, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if t, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = t, 1<<(10*(i+1))
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err == nil && unit == 1 && v > 0 && v < 1<<20 { // whose unit was forgotten
		return fmt.Errorf("%s bytes: want a unit, such as %sGiB", text, text)
	}
	if err != nil || v < 1 || v > 1<<50/unit {
		return yamldoc.WantError("bytes from 1 to 1024TiB, such as 16GiB")
	}
	*s = size(v * unit)
	return nil
}

// shapeTimes are seconds by shape: a calibration has thousands, whose names are no keys
// that yamldoc takes.
type shapeTimes map[string]float64

func (s *shapeTimes) UnmarshalYAML(n *yaml.Node) error {
	if err := n.Decode((*map[string]float64)(s)); err != nil {
		said := strings.TrimPrefix(strings.Join(strings.Fields(err.Error()), " "), "yaml: unmarshal errors: ")
		return fmt.Errorf("%s: want each operation as calibrate names it once, with its seconds", said)
	}
	for shape, seconds := range *s {
		if !(seconds >= 0 && seconds <= 1e6) {
			return fmt.Errorf("%q: %v: want seconds from 0 to 1e+06", shape, seconds)
		}
	}
	return nil
}

// vocabularies are the words of a file.
var vocabularies = yamldoc.Vocabularies{
	"accelerator": CheckName,
	"efficiency":  yamldoc.OneOf(slices.Concat(efficiencyKinds, ownBandwidth)...),
	"kind":        yamldoc.OneOf(kinds...),
	"dtype":       yamldoc.OneOf(graph.BF16.String(), graph.F32.String()),
}

var accelName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)

// CheckName returns an error for a name that no accelerator may have.
func CheckName(name string) error {
	if !accelName.MatchString(name) {
		return fmt.Errorf("%q: want lower-case letters, digits and hyphens, 100 at most", name)
	}
	return nil
}

// Read reads one accelerator in the form of package accelerators (tpuv2.yaml explains
// each field). Every error begins with file:line:column and ends with what would be
// accepted.
func Read(file string, text []byte) (*Accelerator, error) {
	var d document
	if err := yamldoc.Decode(file, text, &d, vocabularies, d.check); err != nil {
		return nil, err
	}
	a := &Accelerator{
		Name: d.Name, Description: d.Description, BF16: d.FLOPs.BF16, F32: d.FLOPs.F32, Memory: int64(d.Memory), Bandwidth: d.Bandwidth,
		Lanes: max(d.Lanes, 1), Tiled: d.Tiled, Fused: d.Fused, Packing: d.Packing, Overhead: d.Overhead,
		Ops: d.Ops, Shapes: d.Shapes, Sources: d.Sources, Kinds: d.Kinds, FP16: d.FLOPs.FP16, FP8: d.FLOPs.FP8,
	}
	if d.Kernels != nil {
		a.Kernels = (*Kernels)(d.Kernels)
	}
	if d.Link != nil {
		a.Link = clock.Link(*d.Link)
	}
	if d.Far != nil {
		a.Far = FarLink{d.Far.Devices, clock.Link(d.Far.linkFields)}
	}
	for _, e := range d.Efficiencies {
		of := Efficiency{Of: e.Of, DType: e.DType, Source: e.Source, Kind: e.Kind}
		for _, s := range e.points() {
			p := Point{s.Size, s.Share, s.Share, s.Share}
			if s.Band != nil {
				p.Low, p.High = s.Band[0], s.Band[1]
			}
			of.Points = append(of.Points, p)
		}
		a.Efficiencies = append(a.Efficiencies, of)
	}
	return a, nil
}

// points are the sizes, or the share for all as one of size 0.
func (e *efficiencyFields) points() []sizeFields {
	if e.Share > 0 {
		return []sizeFields{{0, e.shareFields}}
	}
	return e.Sizes
}

// check finds what a field's type does not show.
func (d *document) check() *yamldoc.Problem {
	if d.FLOPs.BF16 == 0 && d.FLOPs.F32 == 0 {
		return yamldoc.At(errors.New("no rate: want bf16, f32 or both"), "flops")
	}
	if d.Far != nil {
		switch {
		case d.Link == nil:
			return yamldoc.At(errors.New("without a link: want link as well"), "far_link")
		case d.Far.Bandwidth > d.Link.Bandwidth:
			return yamldoc.At(fmt.Errorf("%g: want at most link's, %g", d.Far.Bandwidth, d.Link.Bandwidth), "far_link", "bandwidth")
		}
	}
	for i := range d.Efficiencies {
		if err := d.Efficiencies[i].check(d.Efficiencies[:i]); err != nil {
			return yamldoc.At(err, "efficiencies", strconv.Itoa(i))
		}
	}
	for name := range d.Ops {
		if !slices.Contains(accelOps, name) {
			return yamldoc.At(fmt.Errorf("unknown: want %s", strings.Join(accelOps, ", ")), "ops", name)
		}
	}
	var fields []string
	for i := range reflect.TypeFor[document]().NumField() {
		fields = append(fields, reflect.TypeFor[document]().Field(i).Tag.Get("yaml"))
	}
	for name := range d.Sources {
		if !slices.Contains(fields, fieldOf(name)) {
			return yamldoc.At(fmt.Errorf("unknown: want %s", strings.Join(fields, ", ")), "sources", name)
		}
	}
	for name, kind := range d.Kinds {
		switch {
		case !slices.Contains(fields, fieldOf(name)):
			return yamldoc.At(fmt.Errorf("unknown: want %s", strings.Join(fields, ", ")), "kinds", name)
		case !slices.Contains(kinds, kind):
			return yamldoc.At(fmt.Errorf("unknown %q: want %s", kind, strings.Join(kinds, ", ")), "kinds", name)
		}
	}
	if d.Kernels != nil && len(d.Kernels.Tiles) == 0 {
		return yamldoc.At(errors.New("none: want one or more, such as [128, 256]"), "kernels", "tiles")
	}
	return nil
}

// fieldOf is the field that an entry of sources or kinds is of: link, of link.latency.
func fieldOf(name string) string {
	field, _, _ := strings.Cut(name, ".")
	return field
}

func (e *efficiencyFields) check(before []efficiencyFields) error {
	switch {
	case (e.Share > 0) == (len(e.Sizes) > 0) || e.Share == 0 && e.Band != nil:
		return errors.New("want either share, perhaps with a band, or sizes")
	case (e.Of == Memory || e.Of == Link || e.Of == Far || slices.Contains(ownBandwidth, e.Of)) && (e.DType != "" || len(e.Sizes) > 0):
		return fmt.Errorf("an efficiency of %s: want a share for all dtypes and sizes", e.Of)
	case slices.ContainsFunc(before, func(o efficiencyFields) bool {
		return o.Of == e.Of && (o.DType == "" || e.DType == "" || o.DType == e.DType)
	}):
		return fmt.Errorf("a second efficiency of %s: want one for each kind and dtype", e.Of)
	}
	last := 0
	for _, p := range e.Sizes {
		if p.Size <= last || p.Share == 0 {
			return fmt.Errorf("size %d with share %g, after size %d: want ascending sizes, each with its share", p.Size, p.Share, last)
		}
		last = p.Size
	}
	for _, p := range e.points() {
		if b := p.Band; b != nil && !(b[0] <= p.Share && p.Share <= b[1]) {
			return fmt.Errorf("%g is outside its band, %g to %g", p.Share, b[0], b[1])
		}
	}
	return nil
}

// accelOps are the names of operations for which a file may give rates: those of
// instructions; clear (of the gradients) and update (of the weights); and task, whose
// overhead is what an F, R or B takes besides its instructions.
var accelOps = []string{
	"add", "attention", "attention-grad", "avg-pool", "avg-pool-grad", "batch-norm", "batch-norm-grad", "batch-norm-grad-sums",
	"batch-norm-grad-totals", "batch-norm-moments", "batch-norm-param-grad", "batch-norm-stats", "bias", "clear", "clip", "clip-grad",
	"column-sum", "concat", "conv2d", "conv2d-input-grad", "conv2d-weight-grad", "copy", "cross-entropy", "cross-entropy-grad",
	"depthwise", "depthwise-input-grad", "depthwise-weight-grad", "drop-path", "dropout", "embed", "embed-grad", "gelu", "gelu-grad",
	"global-avg-pool", "global-avg-pool-grad", "layer-norm",
	"layer-norm-grad", "layer-norm-param-grad", "matmul", "matmul-at", "matmul-bt", "max-pool", "max-pool-grad", "mul", "pad",
	"relu", "relu-grad", "rms-norm", "rms-norm-grad", "rms-norm-param-grad", "rotary", "scale", "slice", "swiglu", "swiglu-grad",
	"task", "update",
}

// opName is an instruction's name in accelOps: that of its first operation, without a
// fused activation.
func opName(instr string) string {
	name, _, _ := strings.Cut(instr, "+")
	return strings.TrimSuffix(name, "-relu")
}
