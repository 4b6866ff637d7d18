package accelerator

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"gpipebench/gpipe/clock"
	"gpipebench/internal/yamldoc"
)

// Read reads one accelerator in the form of package accelerators (tpuv2.yaml explains
// each field). Every error begins with file:line:column and ends with what would be
// accepted.
func Read(file string, text []byte) (*Accelerator, error) {
	r := accelReader{file: file}
	doc, err := yamldoc.Parse(file, text)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		return nil, fmt.Errorf("%s:1:1: an empty file: want an accelerator's fields, such as name and flops", file)
	}
	a := &Accelerator{Lanes: 1}
	if err := r.mapping(doc, "", r.fields(a)); err != nil {
		return nil, err
	}
	return a, nil
}

// accelField is a key and the function that reads its value.
type accelField struct {
	key      string
	required bool
	read     func(n *yaml.Node) error
}

type accelReader struct{ file string }

func (r accelReader) fields(a *Accelerator) []accelField {
	number := func(to *float64, unit string, least, most float64) func(*yaml.Node) error {
		return func(n *yaml.Node) (err error) {
			*to, err = r.number(n, unit, least, most)
			return err
		}
	}
	link := func(to *clock.Link, most float64) []accelField {
		return []accelField{
			{"bandwidth", true, number(&to.Bandwidth, "bytes a second", 1, most)},
			{"latency", false, number(&to.Latency, "seconds", 0, 10)},
			{"through_host", false, r.truth(&to.ThroughHost)},
		}
	}
	fields := []accelField{
		{"name", true, func(n *yaml.Node) error {
			name := n.Value
			if n.Kind != yaml.ScalarNode {
				name = ""
			}
			if err := CheckName(name); err != nil {
				return r.at(n, "%w", err)
			}
			a.Name = name
			return nil
		}},
		{"description", false, r.text(&a.Description)},
		{"flops", true, func(n *yaml.Node) error {
			err := r.mapping(n, "flops.", []accelField{
				{"bf16", false, number(&a.BF16, "floating-point operations a second", 1, 1e21)},
				{"f32", false, number(&a.F32, "floating-point operations a second", 1, 1e21)},
			})
			if err == nil && a.BF16 == 0 && a.F32 == 0 {
				err = r.at(n, "no rate: want bf16, f32 or both")
			}
			return err
		}},
		{"memory", true, func(n *yaml.Node) (err error) {
			a.Memory, err = r.bytes(n)
			return err
		}},
		{"bandwidth", true, number(&a.Bandwidth, "bytes a second", 1, 1e18)},
		{"lanes", false, func(n *yaml.Node) (err error) {
			a.Lanes, err = r.whole(n, "lanes", 1, 1<<16)
			return err
		}},
		{"tiled", false, r.truth(&a.Tiled)},
		{"fused", false, r.truth(&a.Fused)},
		{"packing", false, r.truth(&a.Packing)},
		{"overhead", false, number(&a.Overhead, "seconds", 0, 1)},
		{"link", true, func(n *yaml.Node) error {
			if n.Value == "none" {
				return nil
			}
			return r.mapping(n, "link.", link(&a.Link, 1e18))
		}},
		{"far_link", false, func(n *yaml.Node) error {
			if a.Link.Bandwidth == 0 {
				return r.at(n, "far_link without a link before it: want link, and far_link after it")
			}
			devices := accelField{"devices", true, func(n *yaml.Node) (err error) {
				a.Far.Devices, err = r.whole(n, "devices of a group", 1, 1<<20)
				return err
			}}
			return r.mapping(n, "far_link.", append(link(&a.Far.Link, a.Link.Bandwidth), devices))
		}},
		{"torus", false, func(n *yaml.Node) error {
			if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
				return r.at(n, "torus: want its two sides in devices, such as [32, 32]")
			}
			for i := range a.Torus {
				side, err := r.whole(n.Content[i], "devices", 1, 1<<16)
				if err != nil {
					return err
				}
				a.Torus[i] = side
			}
			return nil
		}},
		{"efficiencies", false, func(n *yaml.Node) error { return r.efficiencies(n, a) }},
		{"ops", false, func(n *yaml.Node) error {
			a.Ops = map[string]OpRate{}
			var ops []accelField
			for _, op := range accelOps {
				ops = append(ops, accelField{op, false, func(n *yaml.Node) error {
					var o OpRate
					err := r.mapping(n, "ops."+op+".", []accelField{
						{"flops", false, number(&o.FLOPs, "floating-point operations a second", 1, 1e21)},
						{"bandwidth", false, number(&o.Bandwidth, "bytes a second", 1, 1e18)},
						{"weights", false, number(&o.Weights, "bytes a second", 1, 1e18)},
						{"overhead", false, number(&o.Overhead, "seconds", 0, 1)},
					})
					a.Ops[op] = o
					return err
				}})
			}
			return r.mapping(n, "ops.", ops)
		}},
		{"shapes", false, func(n *yaml.Node) error {
			if n.Kind != yaml.MappingNode {
				return r.at(n, "shapes: want operations as calibrate names them, with their seconds")
			}
			a.Shapes = map[string]float64{}
			for i := 0; i+1 < len(n.Content); i += 2 {
				name := n.Content[i].Value
				if _, twice := a.Shapes[name]; twice {
					return r.at(n.Content[i], "%q is there twice: want it once", name)
				}
				seconds, err := r.number(n.Content[i+1], "seconds", 0, 1e6)
				if err != nil {
					return err
				}
				a.Shapes[name] = seconds
			}
			return nil
		}},
	}
	var sources []accelField
	a.Sources = map[string]string{}
	for _, f := range fields {
		sources = append(sources, accelField{f.key, false, func(n *yaml.Node) error {
			var s string
			err := r.text(&s)(n)
			a.Sources[f.key] = s
			return err
		}})
	}
	return append(fields, accelField{"sources", false, func(n *yaml.Node) error { return r.mapping(n, "sources.", sources) }})
}

var accelName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,99}$`)

// CheckName returns an error for a name that no accelerator may have.
func CheckName(name string) error {
	if !accelName.MatchString(name) {
		return fmt.Errorf("name %q: want lower-case letters, digits and hyphens, 100 at most", name)
	}
	return nil
}

// mapping reads a mapping's fields: each at most once, all required ones, no others.
func (r accelReader) mapping(n *yaml.Node, prefix string, fields []accelField) error {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	if n.Kind != yaml.MappingNode {
		what := "want an accelerator's fields"
		if prefix != "" {
			what = strings.TrimSuffix(prefix, ".") + ": want fields"
		}
		return r.at(n, "%s: %s", what, strings.Join(keys, ", "))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		j := slices.Index(keys, key.Value)
		if j < 0 {
			return r.at(key, "unknown field %s%s: want %s", prefix, key.Value, strings.Join(keys, ", "))
		}
		if seen[key.Value] {
			return r.at(key, "%s%s is there twice: want it once", prefix, key.Value)
		}
		seen[key.Value] = true
		if err := fields[j].read(n.Content[i+1]); err != nil {
			return err
		}
	}
	for _, f := range fields {
		switch {
		case !f.required || seen[f.key]:
		case prefix+f.key == "link":
			return r.at(n, "no link: want its bandwidth, such as link: {bandwidth: 16e9}, or link: none, where transfers take no time")
		default:
			return r.at(n, "no %s%s: it cannot be left out", prefix, f.key)
		}
	}
	return nil
}

func (r accelReader) number(n *yaml.Node, unit string, least, most float64) (float64, error) {
	v, err := strconv.ParseFloat(n.Value, 64)
	if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) {
		return 0, r.at(n, "%q is no number: want %s from %g to %g", n.Value, unit, least, most)
	}
	if v < least || v > most {
		return 0, r.at(n, "%s: want %s from %g to %g", n.Value, unit, least, most)
	}
	return v, nil
}

func (r accelReader) whole(n *yaml.Node, unit string, least, most float64) (int, error) {
	v, err := r.number(n, unit, least, most)
	if err == nil && v != math.Trunc(v) {
		err = r.at(n, "%q: want a whole number of %s", n.Value, unit)
	}
	return int(v), err
}

func (r accelReader) bytes(n *yaml.Node) (int64, error) {
	text, unit := n.Value, int64(1)
	for i, suffix := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if t, ok := strings.CutSuffix(text, suffix); ok {
			text, unit = t, 1<<(10*(i+1))
		}
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err == nil && unit == 1 && v > 0 && v < 1<<20 { // whose unit was forgotten
		return 0, r.at(n, "%s bytes: want a unit, such as %sGiB", text, text)
	}
	if n.Kind != yaml.ScalarNode || err != nil || v < 1 || v > 1<<50/unit {
		return 0, r.at(n, "%q: want bytes from 1 to 1024TiB, such as 16GiB", n.Value)
	}
	return v * unit, nil
}

func (r accelReader) text(to *string) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Kind != yaml.ScalarNode || n.Value == "" {
			return r.at(n, "want a text")
		}
		*to = n.Value
		return nil
	}
}

func (r accelReader) truth(to *bool) func(*yaml.Node) error {
	return func(n *yaml.Node) error {
		if n.Value != "true" && n.Value != "false" {
			return r.at(n, "%q: want true or false", n.Value)
		}
		*to = n.Value == "true"
		return nil
	}
}

// at is an error with the place of a node.
func (r accelReader) at(n *yaml.Node, format string, args ...any) error {
	return fmt.Errorf("%s:%d:%d: %w", r.file, n.Line, n.Column, fmt.Errorf(format, args...))
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
	"relu", "relu-grad", "scale", "slice", "task", "update",
}

// opName is an instruction's name in accelOps: that of its first operation, without a
// fused activation.
func opName(instr string) string {
	name, _, _ := strings.Cut(instr, "+")
	return strings.TrimSuffix(name, "-relu")
}
