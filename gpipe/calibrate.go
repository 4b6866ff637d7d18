package gpipe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// Calibration fits a roofline to instructions that were timed on this machine:
// for each kind of operation a rate (of arithmetic if it is a product, of
// traffic otherwise) and an overhead. The zero value is ready. It is fed by
// [Pipeline.Watch] and by Updates.
type Calibration struct {
	instrs map[*program.Instr][]float64
	whole  map[string][]workTime // of clear and update
}

// workTime is how long something took, and how much there was to do.
type workTime struct{ work, seconds float64 }

// Watch notes one run of an instruction.
func (c *Calibration) Watch(in *program.Instr, seconds float64) {
	if c.instrs == nil {
		c.instrs = map[*program.Instr][]float64{}
	}
	c.instrs[in] = append(c.instrs[in], seconds)
}

// Updates notes what clearing the gradients and updating the weights took.
func (c *Calibration) Updates(plan *Plan, times StageTimes) {
	if c.whole == nil {
		c.whole = map[string][]workTime{}
	}
	c.whole["clear"] = append(c.whole["clear"], workTime{clearBytes(plan), times.Setup})
	c.whole["update"] = append(c.whole["update"], workTime{updateBytes(plan), times.Update})
}

// Fit sets the accelerator's rates by operation. Each instruction counts once,
// with the median of its runs. Work that an operation has in one size only fits
// a rate without an overhead.
func (c *Calibration) Fit(a *Accelerator) {
	samples := map[string][]workTime{}
	products := map[string]bool{}
	for in, times := range c.instrs {
		name := opName(in.Op)
		work := float64(in.Cost.FLOPs)
		if work > 0 {
			products[name] = true
		} else {
			for m := range in.Moves() {
				work += float64(m.Elems * m.ElemBytes)
			}
		}
		samples[name] = append(samples[name], workTime{work, middle(times)})
	}
	maps.Copy(samples, c.whole)
	a.Ops = map[string]OpRate{}
	for name, s := range samples {
		rate, overhead := fitLine(s)
		// A file has as many digits as a measurement is good for.
		rate, overhead = digits(rate), digits(overhead)
		if products[name] {
			a.Ops[name] = OpRate{FLOPs: rate, Bandwidth: maxRate, Overhead: overhead}
		} else {
			a.Ops[name] = OpRate{Bandwidth: rate, Overhead: overhead}
		}
	}
}

// maxRate leaves a product's time to its arithmetic: traffic is in its rate.
const maxRate = 1e18

func digits(x float64) float64 {
	if x == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(x)))
	return math.Round(x*scale) / scale
}

func middle(xs []float64) float64 {
	xs = slices.Sorted(slices.Values(xs))
	return xs[len(xs)/2]
}

// fitLine finds rate and overhead of seconds = overhead + work/rate, with the
// least sum of squared relative errors; the overhead is not negative.
func fitLine(s []workTime) (rate, overhead float64) {
	// With u = 1/seconds and v = work/seconds: 1 = overhead u + v/rate.
	var uu, uv, vv, u1, v1 float64
	for _, w := range s {
		u, v := 1/w.seconds, w.work/w.seconds
		uu, uv, vv, u1, v1 = uu+u*u, uv+u*v, vv+v*v, u1+u, v1+v
	}
	det := uu*vv - uv*uv
	slope := v1 / vv
	if det > 1e-9*uu*vv {
		o, s := (u1*vv-v1*uv)/det, (uu*v1-uv*u1)/det
		if o > 0 && s > 0 {
			overhead, slope = o, s
		}
	}
	return 1 / slope, overhead
}

// Text is the accelerator in the form that ReadAccelerator reads.
func (a *Accelerator) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("name: %s", a.Name)
	if a.Description != "" {
		line("description: %q", a.Description)
	}
	var rates []string
	for _, r := range []struct {
		dtype graph.DType
		rate  float64
	}{{graph.BF16, a.BF16}, {graph.F32, a.F32}} {
		if r.rate > 0 {
			rates = append(rates, fmt.Sprintf("%v: %.6g", r.dtype, r.rate))
		}
	}
	line("flops: {%s}", strings.Join(rates, ", "))
	line("memory: %d", a.Memory)
	line("bandwidth: %.6g", a.Bandwidth)
	line("lanes: %d", a.Lanes)
	line("tiled: %v", a.Tiled)
	line("fused: %v", a.Fused)
	line("packing: %v", a.Packing)
	line("overhead: %.6g", a.Overhead)
	if a.Link.Bandwidth > 0 {
		line("link: {bandwidth: %.6g, latency: %.6g, through_host: %v}", a.Link.Bandwidth, a.Link.Latency, a.Link.ThroughHost)
	}
	if len(a.Ops) > 0 {
		line("ops:")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Ops)) {
		o := a.Ops[name]
		var fields []string
		for _, f := range []struct {
			key   string
			value float64
		}{{"flops", o.FLOPs}, {"bandwidth", o.Bandwidth}, {"overhead", o.Overhead}} {
			if f.value > 0 {
				fields = append(fields, fmt.Sprintf("%s: %.6g", f.key, f.value))
			}
		}
		line("  %s: {%s}", name, strings.Join(fields, ", "))
	}
	if len(a.Sources) > 0 {
		line("sources:")
	}
	for _, name := range slices.Sorted(maps.Keys(a.Sources)) {
		line("  %s: %q", name, a.Sources[name])
	}
	return b.String()
}
