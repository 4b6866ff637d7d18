package accelerator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gpipebench/gpipe/clock"
	"gpipebench/nn/graph"
)

// Text is the accelerator in the form that Read reads.
func (a *Accelerator) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("name: %s", a.Name)
	if a.Description != "" {
		line("description: %q", a.Description)
	}
	var rates []string
	for _, r := range []struct {
		dtype string
		rate  float64
	}{{graph.BF16.String(), a.BF16}, {graph.F32.String(), a.F32}, {"fp16", a.FP16}, {"fp8", a.FP8}} {
		if r.rate > 0 {
			rates = append(rates, fmt.Sprintf("%s: %.6g", r.dtype, r.rate))
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
	link := func(l clock.Link) string {
		return fmt.Sprintf("bandwidth: %.6g, latency: %.6g, through_host: %v", l.Bandwidth, l.Latency, l.ThroughHost)
	}
	if a.Link.Bandwidth > 0 {
		line("link: {%s}", link(a.Link))
	} else {
		line("link: none")
	}
	if a.Far.Devices > 0 {
		line("far_link: {devices: %d, %s}", a.Far.Devices, link(a.Far.Link))
	}
	if k := a.Kernels; k != nil {
		var tiles []string
		for _, t := range k.Tiles {
			tiles = append(tiles, fmt.Sprintf("[%d, %d]", t[0], t[1]))
		}
		unaligned := ""
		if k.Unaligned > 0 {
			unaligned = fmt.Sprintf("unaligned: %.6g, ", k.Unaligned)
		}
		line("kernels: {processors: %d, tiles: [%s], cache: %.6g, start: %.6g, %sissue: %.6g}", k.Processors, strings.Join(tiles, ", "), k.Cache, k.Start, unaligned, k.Issue)
	}
	if len(a.Efficiencies) > 0 {
		line("efficiencies:")
	}
	for _, e := range a.Efficiencies {
		line("  - %s", e.text())
	}
	section(line, "ops", a.Ops, func(name string, o OpRate) string {
		var fields []string
		for _, f := range []struct {
			key   string
			value float64
		}{{"flops", o.FLOPs}, {"bandwidth", o.Bandwidth}, {"weights", o.Weights}, {"overhead", o.Overhead}} {
			if f.value > 0 {
				fields = append(fields, fmt.Sprintf("%s: %.6g", f.key, f.value))
			}
		}
		return fmt.Sprintf("%s: {%s}", name, strings.Join(fields, ", "))
	})
	section(line, "shapes", a.Shapes, func(shape string, seconds float64) string { return fmt.Sprintf("%q: %.6g", shape, seconds) })
	section(line, "sources", a.Sources, func(name, source string) string { return fmt.Sprintf("%s: %q", name, source) })
	section(line, "kinds", a.Kinds, func(name, kind string) string { return name + ": " + kind })
	return b.String()
}

// section is a field's entries by name, if there are any, with the text of each.
func section[V any](line func(format string, args ...any), field string, entries map[string]V, text func(name string, entry V) string) {
	if len(entries) > 0 {
		line("%s:", field)
	}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		line("  %s", text(name, entries[name]))
	}
}

// text is an efficiency in the form that Read reads, in one line.
func (e Efficiency) text() string {
	of := "of: " + e.Of
	if e.DType != "" {
		of += ", dtype: " + e.DType
	}
	if e.Kind != "" {
		of += ", kind: " + e.Kind
	}
	var points []string
	for _, p := range e.Points {
		share := fmt.Sprintf("share: %.6g, band: [%.6g, %.6g]", p.Share, p.Low, p.High)
		if p.Size == 0 {
			return fmt.Sprintf("{%s, %s, source: %q}", of, share, e.Source)
		}
		points = append(points, fmt.Sprintf("{size: %d, %s}", p.Size, share))
	}
	return fmt.Sprintf("{%s, sizes: [%s], source: %q}", of, strings.Join(points, ", "), e.Source)
}
