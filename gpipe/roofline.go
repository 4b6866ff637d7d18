package gpipe

import (
	"gpipebench/nn/graph"
	"gpipebench/nn/program"
)

// seconds is the roofline's time for a program whose activations are of a dtype.
func (a *Accelerator) seconds(p *program.Program, dt graph.DType) float64 {
	var sum float64
	for _, in := range p.Instrs {
		bytes := float64(in.Cost.Bytes) * float64(dt.Bytes()) / floatBytes
		sum += max(float64(in.Cost.FLOPs)/a.rate(dt), bytes/a.Bandwidth) + a.Overhead
	}
	return sum
}
