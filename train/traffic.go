package train

import (
	"slices"

	"gpipebench/gpipe"
	"gpipebench/gpipe/transport"
	"gpipebench/internal/stats"
)

// Travelled is what processes sent each other in a step, of one kind of tensors.
type Travelled struct {
	What         string  `json:"what"` // as gpipe.Load names it
	Messages     int64   `json:"messages"`
	Bytes        int64   `json:"bytes"`
	PlannedBytes int64   `json:"planned_bytes"`
	Seconds      float64 `json:"seconds"` // of taking the bytes in, added up over receivers; the median of the steps
}

// traffic is what steps on mini-batches of one size sent from process to process, the
// bytes those of the last; nil if there is one process or no step.
func (p *Processes) traffic(steps []*gpipe.Result, over transport.Transport) []Travelled {
	if p == nil || len(steps) == 0 {
		return nil
	}
	crosses := func(t gpipe.Traffic) bool { return over.Owner(t.From) != over.Owner(t.To) }
	last := steps[len(steps)-1]
	var all []Travelled
	for what := range gpipe.Loads {
		of := Travelled{What: what.String()}
		for _, t := range last.Traffic {
			if t.What == what && crosses(t) {
				of.Messages, of.Bytes = of.Messages+t.Messages, of.Bytes+t.Bytes
			}
		}
		for _, t := range last.PlannedTraffic() {
			if t.What == what && crosses(t) {
				of.PlannedBytes += t.Bytes
			}
		}
		var seconds []float64
		for _, step := range steps {
			sum := 0.0
			for _, t := range step.Traffic {
				if t.What == what && crosses(t) {
					sum += t.Seconds
				}
			}
			seconds = append(seconds, sum)
		}
		of.Seconds = stats.Median(seconds)
		all = append(all, of)
	}
	return slices.DeleteFunc(all, func(t Travelled) bool { return t.Messages == 0 && t.PlannedBytes == 0 })
}
