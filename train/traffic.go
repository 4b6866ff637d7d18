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
// bytes those of the last, of a window an even part; nil if there is one process or no step.
func (p *Processes) traffic(steps []*gpipe.Result, over transport.Transport) []Travelled {
	if p == nil || len(steps) == 0 {
		return nil
	}
	crossing := func(all []gpipe.Traffic, what gpipe.Load) (sum gpipe.Traffic) {
		for _, t := range all {
			if t.What == what && over.Owner(t.From) != over.Owner(t.To) {
				sum.Messages, sum.Bytes, sum.Seconds = sum.Messages+t.Messages, sum.Bytes+t.Bytes, sum.Seconds+t.Seconds
			}
		}
		return sum
	}
	last := steps[len(steps)-1]
	var all []Travelled
	for what := range gpipe.Loads {
		sent, planned := crossing(last.Traffic, what), crossing(last.PlannedTraffic(), what)
		var seconds []float64
		for _, step := range steps {
			seconds = append(seconds, crossing(step.Traffic, what).Seconds)
		}
		window := int64(max(last.Times.Window, 1))
		all = append(all, Travelled{what.String(), sent.Messages / window, sent.Bytes / window, planned.Bytes / window, stats.Median(seconds) / float64(window)})
	}
	return slices.DeleteFunc(all, func(t Travelled) bool { return t.Messages == 0 && t.PlannedBytes == 0 })
}
