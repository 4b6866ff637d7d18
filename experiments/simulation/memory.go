package simulation

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"gpipebench/experiments/plot"
	"gpipebench/experiments/workload"
	"gpipebench/gpipe/schedule"
	"gpipebench/gpipe/timeline"
	"gpipebench/internal/files"
	"gpipebench/nn/graph"
)

// MemoryOverTime is what each device holds during a simulated step, as corners
// of a staircase (seconds, bytes). A residual set is held from the forward that
// keeps it (the recomputation, if there is one) to the end of its backward, the
// workspace while a task runs. Parameters and what counts with them, and the
// boundary slots, which are reserved, are held throughout. A staircase's highest
// step is the device's PeakBytes.
func (s *Simulation) MemoryOverTime() [][]MemoryPoint {
	type change struct {
		at        float64
		sets, run int
	}
	type micro struct{ device, micro int }
	changes := make([][]change, len(s.Devices))
	kept := map[micro]float64{} // since when
	events := slices.Clone(s.Timeline.Events)
	slices.SortStableFunc(events, func(a, b timeline.Event) int { return cmp.Compare(a.Start, b.Start) })
	for _, e := range events {
		if !e.Kind.Task() && e.Kind != timeline.Update {
			continue
		}
		add := func(at float64, sets, run int) {
			changes[e.At.Stage] = append(changes[e.At.Stage], change{at, sets, run})
		}
		add(e.Start, 0, 1)
		add(e.End, 0, -1)
		of := micro{e.At.Stage, e.Micro}
		switch e.Kind {
		case timeline.Forward, timeline.Recompute:
			kept[of] = e.Start // a recomputation comes later and replaces the forward's
		case timeline.Backward:
			add(kept[of], 1, 0)
			add(e.End, -1, 0)
		}
	}
	all := make([][]MemoryPoint, len(s.Devices))
	for k, d := range s.Devices {
		// What ends at a time is gone before what begins then.
		slices.SortStableFunc(changes[k], func(a, b change) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.sets+a.run, b.sets+b.run))
		})
		most, sets := 1, 0
		for _, c := range changes[k] {
			sets += c.sets
			most = max(most, sets)
		}
		always := d.PeakBytes - d.ResidualBytes - d.WorkspaceBytes
		held := always
		sets, running := 0, 0
		corners := []MemoryPoint{{0, held}}
		for i, c := range changes[k] {
			sets, running = sets+c.sets, running+c.run
			if i+1 < len(changes[k]) && changes[k][i+1].at == c.at {
				continue // one corner for all that happens at a time
			}
			corners = append(corners, MemoryPoint{c.at, held})
			held = always + d.ResidualBytes*int64(sets)/int64(most) + d.WorkspaceBytes*int64(min(running, 1))
			corners = append(corners, MemoryPoint{c.at, held})
		}
		all[k] = append(corners, MemoryPoint{s.Timeline.Span(), held})
	}
	return all
}

// MemoryPoint is what a device holds at a time of the step.
type MemoryPoint struct {
	Seconds float64
	Bytes   int64
}

// WriteMemory draws the memory of a simulated step's devices over time, of many
// devices some: as PNG if the file's name ends in .png, else as SVG.
func WriteMemory(name string, s *Simulation) error {
	drawn, err := plot.Files("memory", fmt.Sprintf("Memory over a step on %d x %s", len(s.Devices), s.Accelerator), []plot.Axes{s.memoryPanel("", "memory (MiB)", 1<<20)})
	if err != nil {
		return err
	}
	file := drawn[0]
	if strings.ToLower(filepath.Ext(name)) == ".png" {
		file = drawn[1]
	}
	return files.Write(name, func(w io.Writer) error { return file.Write(w) })
}

// memoryPanel has a line for each device, of many devices for some.
func (s *Simulation) memoryPanel(title, y string, unit float64) plot.LinePanel {
	p := plot.LinePanel{X: "time of the step (ms)", Y: y, Title: title, FromZero: true}
	devices := s.MemoryOverTime()
	every := (len(devices) + len(plot.Palette) - 1) / len(plot.Palette)
	for k := 0; k < len(devices); k += every {
		var line []plot.Point
		for _, at := range devices[k] {
			line = append(line, plot.Point{X: at.Seconds * 1e3, Y: float64(at.Bytes) / unit})
		}
		p.Series = append(p.Series, plot.Series{Name: fmt.Sprintf("device %d", k), Lines: [][]plot.Point{line}})
	}
	return p
}

// MemoryIllustration draws what schedules and re-materialisation do to memory:
// the paper's Transformer-48 (Table 2) on four modelled accelerators. It is
// computed from shapes, when it is drawn.
func MemoryIllustration(ctx context.Context) (picture, caption string, err error) {
	sim := Simulating{
		Model:       workload.Model{Name: "transformer-lm", Layers: 48, Dim: 2048, FF: 8192, Heads: 16, Vocab: 32000, Seq: 1024},
		Accelerator: "tpuv3", Batch: 32, Optimizer: "adam", DType: graph.BF16, Setup: workload.Setup{Partitions: 4, MicroBatches: 8},
	}
	var panels []plot.Axes
	for _, way := range []struct {
		name       string
		schedule   schedule.Schedule
		checkpoint schedule.Checkpoint
	}{
		{"GPipe: everything recomputed", schedule.GPipe, schedule.Always},
		{"GPipe without re-materialisation", schedule.GPipe, schedule.Never},
		{"1F1B without re-materialisation", schedule.OneFOneB, schedule.Never},
	} {
		sim.Setup.Schedule, sim.Setup.Checkpoint = way.schedule, way.checkpoint
		s, err := sim.Run(ctx)
		if err != nil {
			return "", "", err
		}
		panels = append(panels, s.memoryPanel(way.name, "memory (GiB)", 1<<30))
	}
	files, err := plot.Files("memory", "Memory of four devices over one step", panels)
	if err != nil {
		return "", "", err
	}
	return files[0].Text, fmt.Sprintf("Transformer-48 (dimension %d, feed-forward %d, sequence %d) cut into K = %d partitions on modelled %s, M = %d, mini-batch %d. Parameters and optimiser state are held throughout; activations that a backward needs pile up from a micro-batch's forward to its backward, or only around the backward where they are recomputed. As planned, not measured: each line's highest step is the device's planned peak.",
		sim.Model.Dim, sim.Model.FF, sim.Model.Seq, sim.Setup.Partitions, sim.Accelerator, sim.Setup.MicroBatches, sim.Batch), nil
}
