package simulate

import (
	"context"
	"fmt"

	"gpipebench/gpipe/schedule"
	"gpipebench/lab/plot"
	"gpipebench/nn/graph"
	"gpipebench/train"
)

// WriteMemory draws the memory of a simulated step's devices over time; of many
// devices it draws some. The file is a PNG if its name ends in .png, else an SVG.
func WriteMemory(name string, s *Simulation) error {
	return plot.Write(name, fmt.Sprintf("Memory over a step on %d x %s", len(s.Devices), s.Accelerator), []plot.Axes{s.memoryPanel("", "memory (MiB)", 1<<20)})
}

// memoryPanel has a line for each device; of many devices it has some.
func (s *Simulation) memoryPanel(title, y string, unit float64) plot.LinePanel {
	p := plot.LinePanel{X: "time of the step (ms)", Y: y, Title: title, FromZero: true}
	var peak, capacity int64 // of the fullest device, of the smallest
	for _, d := range s.Devices {
		peak = max(peak, d.PeakBytes)
		if d.Capacity > 0 && (capacity == 0 || d.Capacity < capacity) {
			capacity = d.Capacity
		}
	}
	if capacity > 0 && peak > capacity/4 { // less would be a line near the ground
		p.Levels = []plot.Level{{Name: "capacity", Y: float64(capacity) / unit}}
	}
	devices := s.Step.MemoryOverTime()
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

// MemoryIllustration draws the effect of schedules and re-materialisation on memory:
// the paper's Transformer-48 (Table 2) on four modelled accelerators, computed from
// shapes.
func MemoryIllustration(ctx context.Context) (picture, caption string, err error) {
	sim := Simulating{
		Model:       train.Model{Name: "transformer-lm", Layers: 48, Dim: 2048, FF: 8192, Heads: 16, Vocab: 32000, Seq: 1024},
		Accelerator: "tpuv3", Batch: 32, Optimizer: "adam", DType: graph.BF16, Setup: train.Setup{Partitions: 4, MicroBatches: 8},
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
	files, err := plot.Files("memory", "Memory of four devices over one step", plot.OneScale(panels))
	if err != nil {
		return "", "", err
	}
	return files[0].Text, fmt.Sprintf("Transformer-48 (dimension %d, feed-forward %d, sequence %d) cut into K = %d partitions on modelled %s, M = %d, mini-batch %d. Parameters and optimiser state are held throughout; activations that a backward needs pile up from a micro-batch's forward to its backward, or only around the backward where they are recomputed. As planned, not measured: each line's highest step is the device's planned peak.",
		sim.Model.Dim, sim.Model.FF, sim.Model.Seq, sim.Setup.Partitions, sim.Accelerator, sim.Setup.MicroBatches, sim.Batch), nil
}
