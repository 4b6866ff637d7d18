package train

import "gpipebench/gpipe/schedule"

// passes are the forward passes that a step takes as long as.
func (s Setup) passes() int {
	if s.Checkpoint == schedule.Never {
		return 3
	}
	return 4
}

// FLOPs returns how many operations a training's matrix products and convolutions have:
// a backward pass counts as two forward passes, and recomputation as one. Sequences count
// as the longest.
func (t Training) FLOPs() (float64, error) {
	source, err := t.Source()
	if err != nil {
		return 0, err
	}
	steps, err := t.steps(source)
	if err != nil {
		return 0, err
	}
	p, in, err := t.pipeline()
	if err != nil {
		return 0, err
	}
	d, err := p.Counted(in)
	if err != nil {
		return 0, err
	}
	var forward float64 // of an example
	for _, l := range d.Layers {
		forward += float64(l.FLOPs)
	}
	return forward * float64(t.Setup.passes()) * float64(t.Batch) * float64(steps), nil
}
