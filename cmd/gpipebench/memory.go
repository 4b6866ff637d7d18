package main

import (
	"fmt"

	"gpipebench/lab/plot"
	"gpipebench/simulate"
)

// writeMemory draws the memory of a simulated step's devices over time; of many
// devices it draws some.
func writeMemory(name string, s *simulate.Simulation) error {
	return plot.Write(name, fmt.Sprintf("Memory over a step on %d x %s", len(s.Devices), s.Accelerator), memoryPanel(s))
}

// memoryPanel has a line for each device; of many devices it has some.
func memoryPanel(s *simulate.Simulation) plot.LinePanel {
	const unit = 1 << 20
	p := plot.LinePanel{X: "time of the step (ms)", Y: "memory (MiB)", FromZero: true}
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
	every := (len(devices) + len(plot.Neutral) - 1) / len(plot.Neutral)
	for k := 0; k < len(devices); k += every {
		var line []plot.Point
		for _, at := range devices[k] {
			line = append(line, plot.Point{X: at.Seconds * 1e3, Y: float64(at.Bytes) / unit})
		}
		p.Series = append(p.Series, plot.Series{Name: fmt.Sprintf("device %d", k), Lines: [][]plot.Point{line}})
	}
	return p
}
