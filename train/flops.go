package train

import "gpipebench/gpipe/schedule"

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
	passes := 3
	if t.Setup.Checkpoint != schedule.Never {
		passes++
	}
	var forward float64 // of an example
	for _, l := range d.Layers {
		forward += float64(l.FLOPs)
	}
	return forward * float64(passes) * float64(t.Batch) * float64(steps), nil
}
